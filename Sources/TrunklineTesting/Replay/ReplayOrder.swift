import TrunklineCore
import TrunklineDiagnostics

/// A recording in the order of its replay, with a time of its own for each entry.
///
/// In the simulation, everything that follows from an entry happens before the next one; on a real event loop it may
/// happen later. So a call whose request was not sent before its link was lost is made right after the loss, and a call
/// cancelled before its request was sent, although a link was ready, is made when it is cancelled.
struct ReplayOrder {
    let recording: Recording
    let cancelledAtOnce: Set<RequestID>

    /// The least time between two entries, with room for something that is not an entry.
    private static let step = Duration.nanoseconds(10)
    private static let mostLinks = 16

    init(_ recording: Recording, _ facts: RecordedCalls) {
        let later = Self.laterCalls(of: recording, facts)
        let entries = recording.entries
        let start = entries.first?.time ?? .zero
        var ordered: [Recording.Entry] = []
        ordered.reserveCapacity(entries.count)
        var last = .zero - Self.step
        func add(_ entry: Recording.Entry) {
            last = max(entry.time - start, last + Self.step)
            ordered.append(Recording.Entry(time: last, content: entry.content))
        }
        func add(_ call: Recording.Call, madeAt time: Duration) {
            last += Self.step
            ordered.append(
                Recording.Entry(time: last, content: .call(call.waiting(last - (time - start), facts, time)))
            )
        }
        for (index, entry) in entries.enumerated() {
            for moved in later.before[index] ?? [] {
                if case .call(let call) = entries[moved].content { add(call, madeAt: entries[moved].time) }
            }
            if !later.moved.contains(index) {
                if case .call(let call) = entry.content {
                    add(Recording.Entry(time: entry.time, content: .call(call.waiting(.zero, facts, entry.time))))
                } else {
                    add(entry)
                }
            }
            for moved in later.after[index] ?? [] {
                if case .call(let call) = entries[moved].content { add(call, madeAt: entries[moved].time) }
            }
        }
        cancelledAtOnce = Set(
            later.before.values.joined().compactMap { index in
                if case .call(let call) = entries[index].content { call.id } else { nil }
            }
        )
        self.recording = Recording(
            start: nil,
            isComplete: recording.isComplete,
            entries: ordered,
            recording.beginning
        )
    }

    private static func laterCalls(
        of recording: Recording,
        _ facts: RecordedCalls
    ) -> (moved: Set<Int>, before: [Int: [Int]], after: [Int: [Int]]) {
        let entries = recording.entries
        var ends: [SessionID: Int] = [:]
        for (index, entry) in entries.enumerated() {
            guard case .event(let event) = entry.content, let session = event.session else { continue }
            if event.name == "link.ended", event.phase == .ready { ends[session] = index }
        }
        // A client has seldom more than two links. The text may tell of any number.
        var ready = recording.beginning.links.suffix(Self.mostLinks).map(\.session)
        var moved: Set<Int> = []
        var (before, after): ([Int: [Int]], [Int: [Int]]) = ([:], [:])
        var unsent: [RequestID: Int] = [:]
        for (index, entry) in entries.enumerated() {
            switch entry.content {
            case .call(let call):
                let end = facts.sent[call.id] ?? facts.failures[call.id]?.index ?? entries.count
                if facts.sent[call.id] == nil { unsent[call.id] = index }
                let loss = ready.compactMap { ends[$0] }.filter { index < $0 && $0 < end }.max()
                guard let loss else { continue }
                moved.insert(index)
                after[loss, default: []].append(index)
            case .event(let event):
                if event.name == "request.cancelled", let id = event.request, !ready.isEmpty,
                    facts.failures[id]?.isCancelledUnsent == true, let call = unsent[id], moved.insert(call).inserted
                {
                    before[index, default: []].append(call)
                }
                guard let session = event.session else { continue }
                if event.name == "connection.ready" { ready = ready.suffix(Self.mostLinks - 1) + [session] }
                if event.name == "link.ended" { ready.removeAll { $0 == session } }
            default: break
            }
        }
        return (moved, before, after)
    }
}

extension Recording.Call {
    fileprivate func waiting(_ delay: Duration, _ facts: RecordedCalls, _ time: Duration) -> Recording.Call {
        let timeout = facts.timeout(of: self, at: time).map { max(.nanoseconds(1), $0 - delay) }
        return Recording.Call(
            id: id,
            type: type,
            name: name,
            bodyCount: bodyCount,
            timeout: timeout,
            isOneWay: isOneWay,
            isOpen: isOpen
        )
    }
}
