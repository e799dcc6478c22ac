public import TrunklineCore

extension SimulatedNetwork {
    /// Starts a server in this network. Must be called within ``run(limits:_:)``.
    ///
    /// - Parameters:
    ///   - endpoint: A host and port, a path, a vsock address, or a command. The host is created if it does not exist.
    ///     A `udp://` endpoint receives datagrams, whatever `options` say. With `options.tls`, clients use the server's
    ///     ``LoopbackServer/endpoint``, which begins with `tls://`. For a command the server plays the child process of
    ///     every link: if it closes a link, the process exits with status 0, and if it resets one, the process is ended
    ///     by signal 9. See ``crash(_:exit:)``.
    ///   - codec: The codec that a client uses. The server uses its `serverSide()`, if it has one.
    ///   - options: The settings of the server. Its port and path are ignored.
    ///   - handler: Returns the reaction to a request. It must not block. Without a handler the server echoes.
    /// - Throws: `TransportError` if another server listens there, or if `options.tls` cannot be loaded.
    public func startServer(
        at endpoint: Endpoint,
        speaking codec: some FrameCodec,
        options: LoopbackServer.Options = LoopbackServer.Options(),
        handler: @escaping LoopbackServer.Handler = { _ in .echo }
    ) async throws(TransportError) -> LoopbackServer {
        let address: SocketAddress
        switch endpoint.target {
        case .unix(let path): address = .unix(path: path)
        case .vsock(let cid, let port): address = .vsock(cid: cid, port: port)
        case .command(let command): address = .command(command)
        case .descriptors:
            throw TransportError(.invalidAddress, "\(endpoint): a simulated network has no descriptors")
        case .host(let name, let port):
            guard let literal = literalAddress(host(name), port: port) else {
                throw TransportError(.invalidAddress, "\(endpoint) is not a valid endpoint in a simulated network")
            }
            address = literal
        }
        var options = options
        options.receivesDatagrams = endpoint.usesDatagrams
        return try await LoopbackServer.start(
            at: address,
            knownAs: endpoint,
            speaking: codec,
            options: options,
            on: loops,
            handler: handler
        )
    }
}
