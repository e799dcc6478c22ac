package protocol LoopDelayReceiver: AnyObject, Sendable {
    /// Called on the loop, before anything is read and before timers fire.
    func loopWasLate(_ delay: LoopDelay)
}

package struct LoopDelayReceivers {
    private struct Entry {
        weak var receiver: (any LoopDelayReceiver)?
    }

    private var entries: [Entry] = []
    private var limit = 64

    package init() {}

    package mutating func add(_ receiver: any LoopDelayReceiver) {
        if entries.count >= limit {
            entries.removeAll { $0.receiver == nil }
            limit = max(64, 2 * entries.count)
        }
        entries.append(Entry(receiver: receiver))
    }

    package var all: [any LoopDelayReceiver] { entries.compactMap(\.receiver) }
}
