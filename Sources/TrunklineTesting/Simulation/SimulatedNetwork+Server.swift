public import Trunkline

extension SimulatedNetwork {
    /// Starts a server in this network. To be called within `run`.
    ///
    /// - Parameters:
    ///   - endpoint: Its host, which is made if there is none of that name, and its port; or a path.
    ///   - codec: The protocol, as a client sees it.
    ///   - handler: What to do about a request; it must not block. Without one the server echoes.
    /// - Throws: When somebody listens there already.
    public func startServer(
        at endpoint: Endpoint,
        speaking codec: some FrameCodec,
        options: LoopbackServer.Options = LoopbackServer.Options(),
        handler: @escaping LoopbackServer.Handler = { _ in .echo }
    ) async throws(TransportError) -> LoopbackServer {
        let address: SocketAddress
        switch endpoint.target {
        case .unix(let path): address = .unix(path: path)
        case .host(let name, let port):
            guard let literal = literalAddress(host(name), port: port) else {
                throw TransportError(.invalidAddress, "\(endpoint) is no place in a simulated network")
            }
            address = literal
        }
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
