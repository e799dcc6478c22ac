/// Reconnecting and failover, as somebody asks for them who knows better.
extension Connection {
    /// Connects now instead of after the rest of a wait, be it one that the server asked for; waits to come stay as
    /// long as they would have been. Nothing happens while there is a link or an attempt, while suspended, and after
    /// the connection was closed.
    public func reconnectNow() {
        guard lifecycle < .closing else { return }
        entered { $0.perform($0.machine.reconnectNow(at: $0.loop.now)) }
    }

    /// Ends the link or the attempt; there is no other until `resume()`, whoever wants one. For times in which the
    /// network is known to be away, or not to be used.
    ///
    /// What had been written and not been answered fails with `connectionLost`, fate `unknown`; what had not waits for
    /// the link after `resume()`, within its own deadline.
    public func suspend() {
        guard lifecycle < .closing else { return }
        let wasIdle = machine.state == .idle
        entered { connection in
            connection.perform(connection.machine.suspend(at: connection.loop.now))
            connection.loseDraining(TransportError.closedByUs)
        }
        if wasIdle { publishState() }
    }

    /// Ends a suspension: connects at once if there was a link before it or somebody has wanted one since, to where the
    /// latest link was unless that failed.
    public func resume() {
        guard lifecycle < .closing, machine.state == .suspended else { return }
        entered { $0.perform($0.machine.resume(at: $0.loop.now)) }
        if machine.state == .idle { publishState() }
    }

    /// Goes to `endpoint`: now, if there is a link to another, an attempt or a wait; else it is where the next attempt
    /// goes. If it cannot be reached, the others have their turn.
    ///
    /// - Throws: `invalidRequest` when `endpoint` is none of the connection's: `replaceEndpoints(_:)` adds some. `closed`
    ///   when the connection is closed, or closing.
    public func switchEndpoint(to endpoint: Endpoint) throws(ClientError) {
        guard lifecycle < .closing else {
            throw ClientError(.closed, .notSent, "the connection is closed", endpoint: endpoint)
        }
        guard let action = machine.switchEndpoint(to: endpoint, at: loop.now) else {
            let message = "\(endpoint) is none of the endpoints; see replaceEndpoints(_:)"
            throw ClientError(.invalidRequest, .notSent, message, endpoint: endpoint)
        }
        entered { $0.perform(action) }
    }

    /// Has these endpoints from now on, of equal ones the first. Those that stay keep what is remembered of them.
    ///
    /// A link or an attempt to an endpoint that is gone is given up for another. With an empty list a link stays until
    /// it is lost, and then callers are told `unavailable`. A wait goes on: clients that are told of a new server are
    /// told at the same time. Those that a handshake has added (`Handshaker.addEndpoints(_:)`) are replaced, too.
    public func replaceEndpoints(_ endpoints: [Endpoint]) {
        guard lifecycle < .closing else { return }
        givenEndpoints = endpoints
        entered { $0.perform($0.machine.replaceEndpoints(endpoints, at: $0.loop.now)) }
    }

    /// The endpoints in the order of preference: those that were given, then those that a handshake has added.
    public var endpoints: [Endpoint] { machine.endpoints }
}

extension ReconnectMachine.Policy {
    init(_ reconnecting: ClientOptions.Reconnecting, _ failover: ClientOptions.Failover) {
        self.init()
        reconnect = reconnecting.policy
        maximumAttempts = reconnecting.maximumAttempts.map { max(1, $0) }
        stableAfter = reconnecting.stableAfter
        keepsLinkWarm = reconnecting.keepsLinkWarm
        retriesPermanentCauses = reconnecting.retriesPermanentCauses
        order =
            switch failover.order {
            case .ordered: .ordered
            case .shuffled: .shuffled
            case .weighted: .weighted
            }
        halfLife = failover.halfLife
        returnsToPreferredAfter = failover.returnsToPreferredAfter
    }
}
