/// The observers of a monitor, by their loops. May be used on any thread.
///
/// There is one for each client, so that there may be thousands. They are held weakly; those that are gone are removed whenever
/// their number may have doubled, and with each change.
final class PathObservers: Sendable {
    private struct Observer {
        weak var object: (any PathObserver)?
    }

    private struct Group {
        let loop: any EventLoop
        var observers: [Observer] = []
        /// With so many it is time to look for those that are gone.
        var limit = 64

        /// Removes those that are gone. Returns the others, to be kept until the lock is released: the last reference to an
        /// observer may be ours.
        mutating func prune() -> [any PathObserver] {
            let left = observers.compactMap(\.object)
            observers = left.map { Observer(object: $0) }
            limit = max(64, 2 * left.count)
            return left
        }

        /// Returns what `prune` does.
        mutating func add(_ observer: any PathObserver) -> [any PathObserver] {
            let left = observers.count >= limit ? prune() : []
            observers.append(Observer(object: observer))
            return left
        }
    }

    private let groups = Lock<[ObjectIdentifier: Group]>([:])

    /// How many observers there are, perhaps with some that are gone.
    var count: Int { groups.withLock { $0.values.reduce(0) { $0 + $1.observers.count } } }

    func add(_ observer: any PathObserver, on loop: any EventLoop) {
        _ = groups.withLock { groups in
            groups[ObjectIdentifier(loop), default: Group(loop: loop)].add(observer)
        }
    }

    /// Tells every observer of `change`, soon, on its loop.
    func tell(_ change: NetworkChange) {
        let loops = groups.withLock { $0.values.map(\.loop) }
        for loop in loops {
            loop.schedule(
                Completion { [self] in
                    let observers = groups.withLock { $0[ObjectIdentifier(loop)]?.prune() ?? [] }
                    for observer in observers { observer.networkChanged(change) }
                }
            )
        }
    }
}
