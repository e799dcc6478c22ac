/// Commands for reconnecting and failover.
extension Connection {
    /// Starts an attempt now if the connection is waiting, and connects if it is idle. See ``Client/reconnectNow()``.
    public func reconnectNow() {
        guard lifecycle < .closing else { return }
        entered { $0.perform($0.machine.reconnectNow(at: $0.loop.now)) }
    }

    /// Ends the link or the attempt. The connection starts no further attempt until ``resume()``.
    ///
    /// A `write` whose first byte was written fails with `connectionLost`, fate `unknown`. All others wait for the link
    /// after `resume()`. See ``Client/suspend()``.
    public func suspend() {
        guard lifecycle < .closing else { return }
        let wasIdle = machine.state == .idle
        entered { connection in
            connection.perform(connection.machine.suspend(at: connection.loop.now))
            connection.loseDraining(TransportError.closedByUs("suspend() was called"))
        }
        if wasIdle { publishState() }
    }

    /// Ends a suspension. See ``Client/resume()``.
    public func resume() {
        guard lifecycle < .closing, machine.state == .suspended else { return }
        entered { $0.perform($0.machine.resume(at: $0.loop.now)) }
        if machine.state == .idle { publishState() }
    }

    /// Starts to switch to `endpoint`, and returns before its link is ready. See ``Client/switchEndpoint(to:)``.
    ///
    /// - Throws: `invalidArgument` if `endpoint` is not in the list; add it with ``replaceEndpoints(_:)``. `closed` if
    ///   the connection is closed or closing. The fate is `notSent`.
    public func switchEndpoint(to endpoint: Endpoint) throws(ClientError) {
        guard lifecycle < .closing else {
            throw .connectionIsClosed.with(endpoint)
        }
        guard let action = machine.switchEndpoint(to: endpoint, at: loop.now) else {
            let message = "\(endpoint) is not in the list of endpoints; add it with replaceEndpoints(_:)"
            throw ClientError(.invalidArgument, .notSent, message, endpoint: endpoint)
        }
        entered { $0.perform(action) }
    }

    /// Replaces the link by another one to the same endpoint. Returns before the new link is ready. See
    /// ``Client/renewLink()``.
    public func renewLink() {
        guard lifecycle < .closing else { return }
        entered { $0.perform($0.machine.renew(because: .request, at: $0.loop.now)) }
    }

    /// Replaces the list of endpoints. See ``Client/replaceEndpoints(_:)``.
    public func replaceEndpoints(_ endpoints: [Endpoint]) {
        guard lifecycle < .closing else { return }
        memory.givenEndpoints = endpoints
        observation?.add(.endpoints, .endpointsChanged(endpoints))
        entered { connection in
            let action = connection.machine.replaceEndpoints(endpoints, at: connection.loop.now)
            connection.forgetPathsOfOthers()
            connection.perform(action)
        }
    }

    /// The endpoints in the order of preference: the configured ones, then those that a handshake has added.
    public var endpoints: [Endpoint] { machine.endpoints }
}
