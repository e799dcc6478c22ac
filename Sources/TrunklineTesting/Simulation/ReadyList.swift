import TrunklineCore

/// What a loop can run now: jobs of tasks and actors, and posted work. The seed determines the order.
struct ReadyList {
    enum Entry {
        case job(UnownedJob)
        case work(any LoopWork)
    }

    private var entries: [Entry] = []

    var count: Int { entries.count }
    var isEmpty: Bool { entries.isEmpty }

    mutating func append(_ entry: Entry) { entries.append(entry) }

    mutating func take(using random: inout SeededGenerator) -> Entry? {
        guard !entries.isEmpty else { return nil }
        let index = entries.count == 1 ? 0 : random.below(entries.count)
        entries.swapAt(index, entries.count - 1)
        return entries.removeLast()
    }
}
