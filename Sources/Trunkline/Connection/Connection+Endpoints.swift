/// Reconnecting and failover, as somebody asks for them who knows better.
extension Connection {
    /// Connects now instead of after the rest of a wait. As `Client.reconnectNow()`.
    public func reconnectNow() {
        guard lifecycle < .closing else { return }
        entered { $0.perform($0.machine.reconnectNow(at: $0.loop.now)) }
    }

    /// Ends the link or the attempt; there is no other until `resume()`. As `Client.suspend()`: a `write` that had begun fails
    /// with `connectionLost`, fate `unknown`; the others wait for the link after `resume()`.
    public func suspend() {
        guard lifecycle < .closing else { return }
        let wasIdle = machine.state == .idle
        entered { connection in
            connection.perform(connection.machine.suspend(at: connection.loop.now))
            connection.loseDraining(TransportError.closedByUs)
        }
        if wasIdle { publishState() }
    }

    /// Ends a suspension. As `Client.resume()`.
    public func resume() {
        guard lifecycle < .closing, machine.state == .suspended else { return }
        entered { $0.perform($0.machine.resume(at: $0.loop.now)) }
        if machine.state == .idle { publishState() }
    }

    /// Goes to `endpoint`. As `Client.switchEndpoint(to:)`.
    ///
    /// - Throws: `invalidArgument` when the connection does not have `endpoint`: `replaceEndpoints(_:)` adds some. `closed`
    ///   when the connection is closed, or closing.
    public func switchEndpoint(to endpoint: Endpoint) throws(ClientError) {
        guard lifecycle < .closing else {
            throw ClientError(.closed, .notSent, "the connection is closed", endpoint: endpoint)
        }
        guard let action = machine.switchEndpoint(to: endpoint, at: loop.now) else {
            let message = "\(endpoint) is none of the endpoints; see replaceEndpoints(_:)"
            throw ClientError(.invalidArgument, .notSent, message, endpoint: endpoint)
        }
        entered { $0.perform(action) }
    }

    /// Replaces the link by another to the same endpoint. As `Client.renewLink()`.
    public func renewLink() {
        guard lifecycle < .closing else { return }
        entered { $0.perform($0.machine.renew(at: $0.loop.now)) }
    }

    /// Has these endpoints from now on. As `Client.replaceEndpoints(_:)`.
    public func replaceEndpoints(_ endpoints: [Endpoint]) {
        guard lifecycle < .closing else { return }
        givenEndpoints = endpoints
        pathView.addresses = pathView.addresses.filter { endpoints.contains($0.key) }
        pathView.unresolved.formIntersection(endpoints)
        entered { $0.perform($0.machine.replaceEndpoints(endpoints, at: $0.loop.now)) }
    }

    /// The endpoints in the order of preference: those that were given, then those that a handshake has added.
    public var endpoints: [Endpoint] { machine.endpoints }
}

extension ReconnectMachine.Policy {
    init(_ reconnecting: ClientOptions.Reconnecting, _ failover: ClientOptions.Failover) {
        self.init()
        reconnect = reconnecting.policy ?? NoRetries()
        maximumAttempts = reconnecting.maximumAttempts.map { max(1, $0) }
        stableAfter = reconnecting.stableAfter
        keepsLinkWarm = reconnecting.keepsLinkWarm
        maximumLinkAge = failover.maximumLinkAge
        overlapsLinks = failover.overlap == .allowed
        sendsAfterGoAway = failover.sendsAfterGoAway
        retriesPermanentCauses = reconnecting.retriesPermanentCauses
        order = failover.order
        halfLife = failover.halfLife
        returnsToPreferredAfter = failover.returnsToPreferredAfter
    }
}
