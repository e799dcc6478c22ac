import TrunklineCore

extension CodecConformance {
    /// The rules that a codec must keep. The table at `CodecConformance` lists them for users.
    package enum Rule: String, Sendable, Hashable, CaseIterable {
        case roundTrip
        case vector
        case copies
        case determinism
        case append
        /// An incomplete frame does not become a frame when the connection ends, either.
        case truncation
        case split
        case merge
        case progress
        /// A length is refused before its body arrives. What one side encodes is not too large for the other. The codec
        /// does not wait for more bytes than one frame can have. It need not call `await`.
        case limit
        case matching
        case heartbeat
        case cancellation
        case window
        case refusal
    }

    /// A rule that the codec breaks.
    public struct Violation: Sendable, Hashable, CustomStringConvertible {
        let rule: Rule
        /// The check that failed, and its result.
        public let message: String
        /// The bytes that were decoded or encoded in that check.
        public let bytes: [UInt8]

        /// The name of the broken rule; see the table at ``CodecConformance``.
        public var ruleName: String { rule.rawValue }

        /// The rule, the message, and the first 64 bytes in hexadecimal.
        public var description: String {
            "\(rule.rawValue): \(message)" + (bytes.isEmpty ? "" : "\n    \(hexadecimal)")
        }

        private var hexadecimal: String {
            let shown = bytes.prefix(64).map(twoDigits).joined(separator: " ")
            return shown + (bytes.count > 64 ? " … (\(bytes.count) bytes)" : "")
        }
    }

    /// The result of a check.
    ///
    /// If ``violations`` is empty, the codec follows all rules that could be checked.
    public struct Report: Sendable, CustomStringConvertible {
        /// The violations: the first three of each rule.
        public internal(set) var violations: [Violation] = []
        var counts: [Rule: Int] = [:]
        /// The rules and samples that could not be checked, with the reasons.
        public internal(set) var unchecked: [String] = []
        var inputs = 0

        static let shownPerRule = 3

        mutating func add(_ rule: Rule, _ message: String, _ bytes: [UInt8]) {
            counts[rule, default: 0] += 1
            guard counts[rule, default: 0] <= Self.shownPerRule else { return }
            violations.append(Violation(rule: rule, message: message.asMessage, bytes: bytes))
        }

        /// Every violation, the number of further ones, and what was not checked.
        public var description: String {
            var lines = violations.map(\.description)
            for rule in Rule.allCases {
                let more = counts[rule, default: 0] - Self.shownPerRule
                if more > 0 { lines.append("\(rule.rawValue): and \(more) more") }
            }
            if violations.isEmpty { lines.append("no violations in \(inputs) inputs") }
            return (lines + unchecked.map { "not checked: \($0)" }).joined(separator: "\n")
        }
    }
}
