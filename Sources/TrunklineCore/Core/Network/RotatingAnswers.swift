/// Recognizes a name server that answers with a part of the addresses, another one each time, and remembers the
/// addresses of its latest answers.
///
/// Such answers are those of Route 53 with "multivalue answers" (eight of all records), those that have no room for all
/// addresses, and those with one address of several. If each of them were the whole list, each would replace most
/// servers.
///
/// An answer is a sign of that if it has as many addresses as the one before, leaves out an address that had returned
/// within `memory`, and has another one that the answer before had not and an earlier one had. After one sign, the
/// answers count as rotating until no answer has left out one address and brought back another for `endurance`.
///
/// Ordinary changes are no sign: that servers are added, removed, replaced, or restarted one after the other, which
/// leaves out each of them once.
package struct RotatingAnswers<Address: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct Entry: Sendable {
        /// The number of the address, in the order in which they were seen first.
        let number: UInt64
        /// What the latest answer said that had the address.
        var value: Value
        /// The number of that answer, and when it came.
        var (answer, seen): (UInt64, Instant)
        /// When the address was in an answer again; `nil` if no answer has left it out.
        var returned: Instant?
    }

    /// How long an address is remembered at least after an answer had it.
    package static var memory: Duration { .seconds(300) }
    /// How long an address is remembered at most. Long enough for eight of a hundred.
    package static var longestMemory: Duration { .seconds(1800) }
    /// How long, per answer that is needed to have all addresses once, an address is remembered while the answers
    /// rotate. With an answer every 30 s, six times as long as an address is missing on average: of random answers, one
    /// in 400 comes later.
    package static var memoryPerAnswer: Duration { .seconds(180) }
    /// How long answers count as rotating after one that left out one address and brought back another.
    package static var endurance: Duration { .seconds(600) }
    /// How many addresses are remembered besides those of the latest answer. Those that were seen last stay.
    package static var capacity: Int { 4096 }

    private var entries: [Address: Entry] = [:]
    private var lastNumber: UInt64 = 0
    /// The number of answers.
    private var answers: UInt64 = 0
    /// The number of addresses in the latest answer.
    private var size = 0
    /// When an answer last showed that the answers rotate; `nil` if they do not.
    private var latestSign: Instant?

    package init() {}

    /// Whether the answers rotate.
    package var isRotating: Bool { latestSign != nil }

    /// The number of addresses that are remembered, those of the latest answer included.
    package var count: Int { entries.count }

    /// Takes an answer. Of an address that occurs twice, the first value counts.
    ///
    /// - Returns: The addresses that this answer leaves out and that are remembered, in the order in which they were
    ///   first seen. Empty unless the answers rotate.
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

    /// Forgets the addresses that were not in an answer for long.
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
