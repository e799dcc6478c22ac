import TrunklineCore

extension CodecConformance {
    /// The rules that a codec must keep. The table at `CodecConformance` lists them for users.
    package enum Rule: String, Sendable, Hashable, CaseIterable {
        /// Each side decodes what the other encodes: the same frames, whatever their bodies contain.
        case roundTrip
        /// Frames are encoded as, and bytes decoded to, what a sample specifies.
        case vector
        /// Copies of a codec share no state: every link has its own.
        case copies
        /// The same bytes give the same frames, and the same frame gives the same bytes.
        case determinism
        /// `encode` appends, whatever is already in the buffer.
        case append
        /// An incomplete frame is neither decoded nor refused, and does not become a frame when the connection ends.
        case truncation
        /// The frames do not depend on where the bytes are split.
        case split
        /// Each frame consumes its own bytes and leaves those of the next.
        case merge
        /// No frame is decoded from zero bytes.
        case progress
        /// Frames that are too large are refused by both `encode` and `decode`, and a length is refused before its body
        /// arrives. What one side encodes is not too large for the other. The codec does not wait for more bytes than
        /// one frame can have. It need not call `await`.
        case limit
        /// Every serial number of `matching` is transmitted, and responses carry the serials of their requests.
        case matching
        /// Pings and their answers arrive as such.
        case heartbeat
        /// A cancellation arrives as such, with the serial number of its request.
        case cancellation
        /// Both sides agree on which frames of a client are window updates.
        case window
        /// Bytes that a sample specifies as invalid are refused.
        case refusal
    }

    /// A rule that the codec breaks.
    public struct Violation: Sendable, Hashable, CustomStringConvertible {
        /// The rule that it broke.
        package let rule: Rule
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
        /// The number of violations of each rule.
        package internal(set) var counts: [Rule: Int] = [:]
        /// The rules and samples that could not be checked, with the reasons.
        public internal(set) var unchecked: [String] = []
        /// The number of inputs that were decoded.
        package internal(set) var inputs = 0

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

/// `byte` in hexadecimal.
func twoDigits(_ byte: UInt8) -> String { (byte < 16 ? "0" : "") + String(byte, radix: 16) }
