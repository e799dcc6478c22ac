/// The observers of a monitor, grouped by their loops. May be used on any thread.
///
/// There is one observer per client, so there may be thousands. They are held weakly. Deallocated observers are removed
/// with each change, and whenever the number of entries may have doubled.
final class PathObservers: Sendable {
    private struct Observer {
        weak var object: (any PathObserver)?
    }

    private struct Group {
        let loop: any EventLoop
        var observers: [Observer] = []
        /// The number of entries at which deallocated observers are removed.
        var limit = 64

        /// Removes deallocated observers. Returns the others, which the caller keeps until the lock is released: it may
        /// hold the last reference to an observer.
        mutating func prune() -> [any PathObserver] {
            let left = observers.compactMap(\.object)
            observers = left.map { Observer(object: $0) }
            limit = max(64, 2 * left.count)
            return left
        }

        /// Adds an observer. Returns what `prune` returns.
        mutating func add(_ observer: any PathObserver) -> [any PathObserver] {
            let left = observers.count >= limit ? prune() : []
            observers.append(Observer(object: observer))
            return left
        }
    }

    private let groups = Lock<[ObjectIdentifier: Group]>([:])

    /// The number of observers; may include deallocated ones.
    var count: Int { groups.withLock { $0.values.reduce(0) { $0 + $1.observers.count } } }

    func add(_ observer: any PathObserver, on loop: any EventLoop) {
        _ = groups.withLock { groups in
            groups[ObjectIdentifier(loop), default: Group(loop: loop)].add(observer)
        }
    }

    /// Notifies every observer of `change`, soon, on its loop.
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
