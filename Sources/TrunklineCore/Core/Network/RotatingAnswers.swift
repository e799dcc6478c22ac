/// Recognizes a name server that answers with a part of the addresses, another one each time, such as Route 53 with
/// "multivalue answers" (eight of all records). If each were the whole list, each would replace most servers. The sign
/// is an answer of the same size that leaves out an address that had returned within `memory`, and brings back another.
/// Servers that are added, removed, replaced, or restarted one after the other are left out only once.
package struct RotatingAnswers<Address: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct Entry: Sendable {
        let number: UInt64
        var value: Value
        var (answer, seen): (UInt64, Instant)
        /// `nil` if no answer has left the address out.
        var returned: Instant?
    }

    static var memory: Duration { .seconds(300) }
    /// Long enough for eight of a hundred.
    static var longestMemory: Duration { .seconds(1800) }
    /// Per answer that is needed to have all addresses once. With an answer every 30 s, six times as long as an address
    /// is missing on average: of random answers, one in 400 comes later.
    static var memoryPerAnswer: Duration { .seconds(180) }
    /// How long answers count as rotating after one that left out one address and brought back another.
    static var endurance: Duration { .seconds(600) }
    /// Besides the addresses of the latest answer. Those that were seen last stay.
    static var capacity: Int { 4096 }

    private var entries: [Address: Entry] = [:]
    private var lastNumber: UInt64 = 0
    private var answers: UInt64 = 0
    private var size = 0
    private var latestSign: Instant?

    package init() {}

    package var isRotating: Bool { latestSign != nil }

    package var count: Int { entries.count }

    /// Returns the remembered addresses that this answer leaves out, in the order in which they were first seen; none
    /// unless the answers rotate. Of an address that occurs twice, the first value counts.
    package mutating func take(_ answer: [(address: Address, value: Value)], at now: Instant) -> [Value] {
        forget(at: now)
        let before = answers
        answers += 1
        var (count, bringsBack) = (0, false)
        for (address, value) in answer {
            guard var entry = entries[address] else {
                lastNumber += 1
                entries[address] = Entry(number: lastNumber, value: value, answer: answers, seen: now)
                count += 1
                continue
            }
            if entry.answer == answers { continue }
            if entry.answer != before { (bringsBack, entry.returned) = (true, now) }
            (entry.value, entry.answer, entry.seen) = (value, answers, now)
            entries[address] = entry
            count += 1
        }
        let missing = entries.values.filter { $0.answer == before }
        let leavesOutAgain = missing.contains { $0.returned.map { now.since($0) <= Self.memory } ?? false }
        if bringsBack, !missing.isEmpty, isRotating || leavesOutAgain && count == size {
            latestSign = now
        } else if let sign = latestSign, now.since(sign) >= Self.endurance {
            latestSign = nil
        }
        size = count
        limit()
        guard isRotating else { return [] }
        return entries.values.filter { $0.answer != answers }.sorted { $0.number < $1.number }.map(\.value)
    }

    private mutating func forget(at now: Instant) {
        var memory = Self.memory
        if isRotating, size > 0 {
            memory = min(max(memory, Self.memoryPerAnswer * (Double(entries.count) / Double(size))), Self.longestMemory)
        }
        entries = entries.filter { $0.value.answer == answers || now.since($0.value.seen) < memory }
    }

    private mutating func limit() {
        let excess = entries.count - size - Self.capacity
        guard excess > 0 else { return }
        let rest = entries.filter { $0.value.answer != answers }
            .sorted { ($0.value.seen, $0.value.number) < ($1.value.seen, $1.value.number) }
        for (address, _) in rest.prefix(excess) { entries[address] = nil }
    }
}
