import TrunklineCore

/// Looks up a name once, in both address families at the same time.
final class OriginLookup: Sendable {
    private struct State {
        var waiter: Continuation<[SocketAddress]?>?
        var isCancelled = false
        var lookupIDs: [Resolver.LookupID] = []
        var found: [SocketAddress] = []
        var answers = 0
    }
    private let state = Lock(State())
    private let host: String
    private let resolver: Resolver

    init(_ host: String, _ resolver: Resolver) { (self.host, self.resolver) = (host, resolver) }

    /// Throws at once when the task is cancelled, even if the system's resolver is still busy.
    func addresses() async throws(CancellationError) -> [SocketAddress] {
        let addresses = await withTaskCancellationHandler {
            await withContinuation { (waiter: Continuation<[SocketAddress]?>) in
                let isLate = state.withLock { state in
                    if !state.isCancelled { state.waiter = waiter }
                    return state.isCancelled
                }
                isLate ? waiter.resume(returning: nil) : ask()
            }
        } onCancel: {
            cancel()
        }
        guard let addresses else { throw CancellationError() }
        return addresses
    }

    private func ask() {
        for family in AddressFamily.allCases {
            let lookupID = resolver.resolve(host, port: 0, family: family) { self.note($0) }
            let isLate = state.withLock { state in
                state.lookupIDs.append(lookupID)
                return state.isCancelled
            }
            if isLate { resolver.cancel(lookupID) }
        }
    }

    private func note(_ answer: NameLookup.Answer) {
        let (waiter, found) = state.withLock { state in
            state.answers += 1
            if case .success(let addresses) = answer { state.found += addresses }
            return state.answers == AddressFamily.allCases.count ? (state.waiter.take(), state.found) : (nil, [])
        }
        waiter?.resume(returning: found)
    }

    private func cancel() {
        let (waiter, lookupIDs) = state.withLock { state in
            state.isCancelled = true
            return (state.waiter.take(), state.lookupIDs)
        }
        for lookupID in lookupIDs { resolver.cancel(lookupID) }
        waiter?.resume(returning: nil)
    }
}
