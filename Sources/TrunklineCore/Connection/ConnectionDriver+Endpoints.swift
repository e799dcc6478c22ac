/// Commands for reconnecting and failover, each without effect once the connection closes.
extension ConnectionDriver {
    func reconnectNow() { if lifecycle < .closing { perform(machine.reconnectNow(at: loop.now)) } }

    func suspend() {
        guard lifecycle < .closing else { return }
        let wasIdle = machine.state == .idle
        perform(machine.suspend(at: loop.now))
        loseDraining(TransportError.closedByUs("suspend() was called"))
        if wasIdle { publishState() }
    }

    func resume() {
        guard lifecycle < .closing, machine.state == .suspended else { return }
        perform(machine.resume(at: loop.now))
        if machine.state == .idle { publishState() }
    }

    func switchEndpoint(to endpoint: Endpoint) -> ClientError? {
        guard lifecycle < .closing else { return .connectionIsClosed.with(endpoint) }
        guard let action = machine.switchEndpoint(to: endpoint, at: loop.now) else {
            let message = "\(endpoint) is not in the list of endpoints; add it with replaceEndpoints(_:)"
            return ClientError(.invalidArgument, .notSent, message, endpoint: endpoint)
        }
        perform(action)
        return nil
    }

    func renewLink() { if lifecycle < .closing { perform(machine.renew(because: .request, at: loop.now)) } }

    func replaceEndpoints(_ endpoints: [Endpoint]) {
        guard lifecycle < .closing else { return }
        memory.givenEndpoints = endpoints
        observation?.add(.endpoints, .endpointsChanged(endpoints))
        let action = machine.replaceEndpoints(endpoints, at: loop.now)
        forgetPathsOfOthers()
        perform(action)
    }
}
