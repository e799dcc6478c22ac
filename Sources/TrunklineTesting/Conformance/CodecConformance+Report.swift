import Trunkline

extension CodecConformance {
    /// What a codec has to keep; `CodecConformance` lists them for users.
    package enum Rule: String, Sendable, Hashable, CaseIterable {
        /// What one side encodes the other decodes: the same frames, no more and no fewer, whatever is in their bodies.
        case roundTrip
        /// Frames become the bytes, and bytes the frames, that a sample says.
        case vector
        /// Copies of a codec share nothing: every link has its own state.
        case copies
        /// The same bytes give the same frames, the same frame the same bytes.
        case determinism
        /// `encode` appends, whatever is in the buffer before it.
        case append
        /// A frame that is not complete is neither decoded nor refused, and does not become one when the connection ends.
        case truncation
        /// Where the bytes are split makes no difference.
        case split
        /// Each frame takes its own bytes and leaves those of the next.
        case merge
        /// No frame without bytes.
        case progress
        /// What is too large is refused both ways, a length before its body is awaited; what one side encodes is not too
        /// large for the other; no more than a frame is left to wait for more.
        case limit
        /// Every serial number of `matching` travels, and responses have those of their requests.
        case matching
        /// Pings, and the answers to them, arrive as what they are.
        case heartbeat
        /// A cancellation arrives as one, with the serial number of its request.
        case cancellation
        /// Both sides agree on which frames of a client are window updates.
        case window
        /// Bytes that a sample says are wrong are refused.
        case refusal
    }

    /// Something that a codec does wrong.
    public struct Violation: Sendable, Hashable, CustomStringConvertible {
        /// What it should have kept.
        package let rule: Rule
        /// What was done and what came of it.
        public let message: String
        /// What was fed, or what was encoded.
        public let bytes: [UInt8]

        /// The name of the rule, as `CodecConformance` lists them.
        public var ruleName: String { rule.rawValue }

        /// The rule, the message, and the first of the bytes in hexadecimal.
        public var description: String {
            "\(rule.rawValue): \(message)" + (bytes.isEmpty ? "" : "\n    \(hexadecimal)")
        }

        private var hexadecimal: String {
            let shown = bytes.prefix(64).map(twoDigits).joined(separator: " ")
            return shown + (bytes.count > 64 ? " … (\(bytes.count) bytes)" : "")
        }
    }

    /// What came of a check.
    public struct Report: Sendable, CustomStringConvertible {
        /// What is wrong: the first few of each rule.
        public internal(set) var violations: [Violation] = []
        /// How often each rule was seen broken.
        package internal(set) var counts: [Rule: Int] = [:]
        /// What could not be checked, and why.
        public internal(set) var unchecked: [String] = []
        /// How many inputs were fed.
        package internal(set) var inputs = 0

        static let shownPerRule = 3

        mutating func add(_ rule: Rule, _ message: String, _ bytes: [UInt8]) {
            counts[rule, default: 0] += 1
            guard counts[rule, default: 0] <= Self.shownPerRule else { return }
            violations.append(Violation(rule: rule, message: message.asMessage, bytes: bytes))
        }

        /// Every violation, how many more there are, and what was not checked.
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
