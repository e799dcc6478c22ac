/// The observers of a monitor by loop, held weakly: one per client, perhaps thousands. May be used on any thread.
final class PathObservers: Sendable {
    private struct Observer {
        weak var object: (any PathObserver)?
    }

    private struct Group {
        let loop: any EventLoop
        var observers: [Observer] = []
        var limit = 64

        /// The caller keeps the observers until the lock is released: a last reference must not end under it.
        mutating func prune() -> [any PathObserver] {
            let left = observers.compactMap(\.object)
            observers = left.map { Observer(object: $0) }
            limit = max(64, 2 * left.count)
            return left
        }

        mutating func add(_ observer: any PathObserver) -> [any PathObserver] {
            let left = observers.count >= limit ? prune() : []
            observers.append(Observer(object: observer))
            return left
        }
    }

    private let groups = Lock<[ObjectIdentifier: Group]>([:])

    var count: Int { groups.withLock { $0.values.reduce(0) { $0 + $1.observers.count } } }

    func add(_ observer: any PathObserver, on loop: any EventLoop) {
        _ = groups.withLock { groups in
            groups[ObjectIdentifier(loop), default: Group(loop: loop)].add(observer)
        }
    }

    func tell(_ change: NetworkChange) {
        let loops = groups.withLock { $0.values.map(\.loop) }
        for loop in loops {
            loop.schedule(
                LoopClosure { [self] in
                    let observers = groups.withLock { $0[ObjectIdentifier(loop)]?.prune() ?? [] }
                    for observer in observers { observer.networkChanged(change) }
                }
            )
        }
    }
}
