/// Following the host's network: what changes mean for links and attempts.
extension ConnectionDriver {
    var presentPath: NetworkPath {
        if let ready { return ready.path.latest }
        if let handshaking { return handshaking.path.latest }
        if let attempt { return attempt.path }
        return machine.endpoints.first.map { paths.path(to: $0) } ?? .unknown
    }

    func forgetPathsOfOthers() {
        let endpoints = Set(machine.endpoints)
        paths.keep(only: endpoints)
        dialMemory.lateLookups.keep(only: endpoints)
    }

    var hasRoute: Bool { paths.hasRoute(toOneOf: machine.endpoints) }

    func take(_ change: NetworkChange) {
        guard lifecycle < .closing else { return }
        dialMemory.lateLookups.drop()
        let attempt = machine.attempt
        for session in links.all.map(\.session) { examine(session, change) }
        let hasChanged = paths.lookAgain(at: machine.endpoints) || change == .wake
        // Links that were just lost may have led to a new attempt, which already knows the present paths.
        let isConcerned = machine.attempt == attempt && isAttemptConcerned(by: change)
        if !hasRoute, !(hasChanged && paths.mayLeadElsewhere) {
            if hasChanged { perform(machine.networkLost(at: loop.now)) }
        } else if hasChanged || isConcerned || machine.state.isWithoutNetwork {
            perform(machine.networkChanged(isAttemptConcerned: isConcerned, at: loop.now))
        }
        // An attempt that was restarted less than a second ago is not restarted now, but checked again later.
        if isConcerned, machine.attempt == attempt, attempt != nil {
            arm(.path, at: loop.now.advanced(by: ReconnectMachine.networkPace))
        }
        paths.publish(presentPath)
    }

    /// Whether the attempt under way began on a path that no longer exists.
    private func isAttemptConcerned(by change: NetworkChange) -> Bool {
        if let handshaking {
            let path = handshaking.path
            return change == .wake || paths.isGone(path.local) || path.changed != nil
        }
        return attempt?.isConcerned(by: change, paths) ?? false
    }

    func takeBetterPath(_ link: Link) {
        let path = link.path
        guard options.network.onRouteChange == .move, path.fresh.isUsable, path.fresh != path.latest else { return }
        perform(machine.takeBetterPath(at: loop.now))
    }

    private func examine(_ session: SessionID, _ change: NetworkChange) {
        guard let link = links[session] else { return }
        switch paths.examine(link) {
        case nil: break
        case .lost(let error)?: lose(session, error)
        case .path(let isAnother, let isBetter)?:
            if isAnother || change == .wake { liveness.probe(session) }
            guard options.network.onRouteChange == .move, isBetter, links[session]?.isDraining == false else { return }
            perform(machine.takeBetterPath(at: loop.now))
        }
    }
}
