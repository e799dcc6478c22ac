// The only place where messages are joined with those of their causes, which often say the same.

enum Phrases {
    /// The names of the codes of `ClientError`, `TransportError`, `FrameError` and `DisconnectCause`.
    static let codes: Set<String> = [
        "cancelled", "checksumMismatch", "closed", "closedByPeer", "closedByServer", "closedLocally",
        "connectionLost", "exhausted", "exited", "goAway", "halfOpen", "handshakeRefused", "illegalLength",
        "interrupted",
        "invalidAddress", "invalidArgument", "invalidRequest", "invalidResponse", "limitExceeded", "malformed",
        "missingBody", "nameResolution", "nameResolutionFailed", "notCached", "overloaded", "pathLost",
        "protocolViolation", "proxy", "refused", "rejected", "repetitionMismatch", "reset", "responseMismatch",
        "sessionLost",
        "system", "timedOut", "tls", "tlsFailed", "unanswered", "unavailable", "unexpectedBytes", "unknownType",
        "unreachable", "unrelatedResponse",
    ]
}

extension [String] {
    package var joinedPhrases: String {
        var (said, result) = ([Substring](), [Substring]())
        for phrase in flatMap(\.phrases) where !phrase.isEmpty && !said.contains(phrase.statement) {
            said.append(phrase.statement)
            result.append(phrase)
        }
        return result.joined(separator: "; ")
    }
}

extension String {
    package static func labelled(_ label: String, _ text: String) -> String {
        if text == label || text.hasPrefix(label + ": ") { return text }
        return text.isEmpty ? label : "\(label): \(text)"
    }

    package static func labelled(_ label: String, _ texts: [String]) -> String {
        let all = ([label] + texts).joinedPhrases
        return all == label ? label : "\(label): \(all.dropFirst(label.count + 2))"
    }

    package func unlabelled(_ label: String) -> String {
        if self == label { return "" }
        return hasPrefix(label + ": ") ? String(dropFirst(label.count + 2)) : self
    }

    fileprivate var phrases: [Substring] {
        var (phrases, rest) = ([Substring](), self[...])
        while let (phrase, others) = rest.cut(at: "; ") {
            phrases.append(phrase)
            rest = others
        }
        return phrases + [rest]
    }
}

extension Substring {
    /// Without the code and the fate of an error, its endpoint in brackets, and the number of the try.
    fileprivate var statement: Substring {
        var rest = self
        while let (label, others) = rest.cut(at: ": "), label.isLabel { rest = others }
        for (end, opening) in [("]", " ["), (")", " (try ")] where rest.hasSuffix(end) {
            if let first = rest.beforeLast(opening) { rest = first }
        }
        return rest
    }

    /// `reset`, `tls(alert(42))` or `connectionLost (fate unknown)`. Other words before a colon are no label.
    private var isLabel: Bool {
        guard let end = firstIndex(where: { !$0.isLetter }) else { return Phrases.codes.contains(String(self)) }
        let rest = self[end...]
        let isDetail = (rest.hasPrefix("(") || rest.hasPrefix(" (")) && rest.hasSuffix(")")
        return isDetail && Phrases.codes.contains(String(self[..<end]))
    }

    private func beforeLast(_ separator: String) -> Substring? {
        var (end, rest): (Index?, Substring) = (nil, self)
        while let (before, after) = rest.cut(at: separator) { (end, rest) = (before.endIndex, after) }
        return end.map { self[..<$0] }
    }

    fileprivate func cut(at separator: String) -> (Substring, Substring)? {
        let pattern = separator.utf8
        var index = startIndex
        while index < endIndex {
            if utf8[index...].starts(with: pattern) {
                return (self[..<index], self[utf8.index(index, offsetBy: pattern.count)...])
            }
            index = utf8.index(after: index)
        }
        return nil
    }
}
