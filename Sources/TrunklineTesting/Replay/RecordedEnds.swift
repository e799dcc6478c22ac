import TrunklineCore
import TrunklineDiagnostics

extension Recording {
    /// Moves the ends of links and attempts to where they happened: with `options.diagnosis.probe` the client tells of
    /// an end when the probe has ended, but the states of the connection show it earlier.
    var withPromptEnds: Recording {
        var ends = ConnectionEnds(beginning.links.last?.session)
        var (before, moved): ([Int: [Int]], Set<Int>) = ([:], [])
        for (index, entry) in entries.enumerated() {
            guard case .event(let event) = entry.content, let end = ends.follow(event, index) else { continue }
            before[end, default: []].append(index)
            moved.insert(index)
        }
        if moved.isEmpty { return self }
        var ordered: [Entry] = []
        for (index, entry) in entries.enumerated() {
            for end in before[index] ?? [] { ordered.append(Entry(time: entry.time, content: entries[end].content)) }
            if !moved.contains(index) { ordered.append(entry) }
        }
        return Recording(start: start, isComplete: isComplete, entries: ordered, beginning)
    }

    /// Where the states of the connection show an end.
    private struct ConnectionEnds {
        private struct Attempt: Hashable {
            let endpoint: String?
            let number: Int64?

            init(_ event: Recording.Event) { (endpoint, number) = (event.text("endpoint"), event.integer("attempt")) }
        }

        private var ready: SessionID?
        private var attempt: Attempt?
        private var links: [SessionID: Int] = [:]
        private var attempts: [Attempt: Int] = [:]

        init(_ ready: SessionID?) { self.ready = ready }

        /// The entry that the end `event` comes before; `nil` if it is in its place.
        mutating func follow(_ event: Recording.Event, _ index: Int) -> Int? {
            switch event.name {
            case "link.ended":
                guard event.phase == .ready, let session = event.session else { return nil }
                return links.removeValue(forKey: session)
            case "attempt.failed": return attempts.removeValue(forKey: Attempt(event))
            case "connection.resolving", "connection.connecting", "connection.securing", "connection.handshaking":
                endLink(index)
                let next = Attempt(event)
                if attempt != next { endAttempt(index) }
                attempt = next
                attempts[next] = nil
            case "connection.ready":
                if event.session != ready { endLink(index) }
                (ready, attempt) = (event.session, nil)
            // A link that is in use while its client closes ends later.
            case "connection.draining": break
            case _ where event.name.hasPrefix("connection."):
                endLink(index)
                endAttempt(index)
            default: break
            }
            return nil
        }

        private mutating func endLink(_ index: Int) {
            if let ready = ready.take() { links[ready] = index }
        }

        private mutating func endAttempt(_ index: Int) {
            if let attempt = attempt.take() { attempts[attempt] = index }
        }
    }
}
