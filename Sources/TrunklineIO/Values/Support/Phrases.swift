// The only place where messages are joined with those of their causes. A cause often says what the message says, so
// without care the text would be "the server closed the connection; the server closed the connection".

/// What the joining of phrases must know.
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
    /// The texts as one, with "; " between their phrases. A phrase that says the same as an earlier one is left out.
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
    /// Returns `label: text`, or one of them if the text begins with the label or is empty.
    package static func labelled(_ label: String, _ text: String) -> String {
        if text == label || text.hasPrefix(label + ": ") { return text }
        return text.isEmpty ? label : "\(label): \(text)"
    }

    /// Returns `label: ` and the phrases of `texts`, without those that only repeat the label.
    package static func labelled(_ label: String, _ texts: [String]) -> String {
        let all = ([label] + texts).joinedPhrases
        return all == label ? label : "\(label): \(all.dropFirst(label.count + 2))"
    }

    /// The text without `label` before it; empty if it is the label.
    package func unlabelled(_ label: String) -> String {
        if self == label { return "" }
        return hasPrefix(label + ": ") ? String(dropFirst(label.count + 2)) : self
    }

    /// The parts between semicolons.
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
    /// What the phrase says, without what may stand around it: labels such as the code and the fate of an error, its
    /// endpoint in brackets, and the number of the try.
    fileprivate var statement: Substring {
        var rest = self
        while let (label, others) = rest.cut(at: ": "), label.isLabel { rest = others }
        for (end, opening) in [("]", " ["), (")", " (try ")] where rest.hasSuffix(end) {
            if let first = rest.beforeLast(opening) { rest = first }
        }
        return rest
    }

    /// `reset`, `tls(alert(42))` or `connectionLost (fate unknown)`: one of the names of codes, which the text after it
    /// explains. Other words before a colon are a part of what the phrase says.
    private var isLabel: Bool {
        guard let end = firstIndex(where: { !$0.isLetter }) else { return Phrases.codes.contains(String(self)) }
        let rest = self[end...]
        let isDetail = (rest.hasPrefix("(") || rest.hasPrefix(" (")) && rest.hasSuffix(")")
        return isDetail && Phrases.codes.contains(String(self[..<end]))
    }

    /// The text before the last `separator`, or `nil` if the text does not contain it.
    private func beforeLast(_ separator: String) -> Substring? {
        var (end, rest): (Index?, Substring) = (nil, self)
        while let (before, after) = rest.cut(at: separator) { (end, rest) = (before.endIndex, after) }
        return end.map { self[..<$0] }
    }

    /// The text before and after the first `separator`, or `nil` if the text does not contain it.
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
