public import Trunkline

extension LoopbackServer {
    /// What a server has seen and done since it was started.
    public struct Journal: Sendable {
        /// Why the server ended a connection by itself last: the client's bytes were no frame, or a frame of the server could
        /// not be encoded (`FrameError`), the TLS handshake failed (`TransportError`), or `Reaction.perform` threw.
        public internal(set) var lastFailure: (any Error)?
        /// Requests received, those of handshakes and restored subscriptions among them.
        public internal(set) var requestCount = 0
        /// Cancel frames received.
        package internal(set) var cancelCount = 0
        /// Pings received.
        public internal(set) var pingCount = 0
        /// Pongs received: answers to pings of ours.
        public internal(set) var pongCount = 0
        /// Frames that belonged to a request that was under way, or had been: pieces of it and window updates, of which
        /// `requestCount` and `received` know nothing. See `Reaction.perform`.
        package internal(set) var requestPartCount = 0
        /// Bodies of `Reaction.perform` that ended without a reply, and their connections with them.
        package internal(set) var unansweredCount = 0
        /// What the last of those threw; `nil` if it returned.
        package internal(set) var lastBodyFailure: (any Error)? {
            didSet { lastFailure = lastBodyFailure ?? lastFailure }
        }
        /// Replies that were put on their way.
        package internal(set) var replyCount = 0
        /// Delayed or held replies that were dropped because their request was cancelled.
        package internal(set) var droppedReplyCount = 0
        /// Connections that are open.
        public internal(set) var connectionCount = 0
        /// Connections that were ever accepted.
        public internal(set) var totalConnections = 0
        /// Connections that were closed at once because there were `Options.maximumConnections`.
        package internal(set) var refusedConnectionCount = 0
        /// TLS handshakes that were completed.
        package internal(set) var handshakeCount = 0
        /// Those of them that took up an earlier session.
        package internal(set) var resumptionCount = 0
        /// TLS handshakes that failed.
        package internal(set) var handshakeFailureCount = 0
        /// Why the last of those failed, as the server saw it.
        package internal(set) var lastHandshakeFailure: TransportError? {
            didSet { lastFailure = lastHandshakeFailure ?? lastFailure }
        }
        /// Connections that were closed because the client sent what is no frame.
        package internal(set) var malformedCount = 0
        /// Why the last of those was closed.
        package internal(set) var lastMalformation: FrameError? {
            didSet { lastFailure = lastMalformation ?? lastFailure }
        }
        /// Frames of ours that the codec could not encode. They were not sent, and their connections were closed.
        package internal(set) var unencodableCount = 0
        /// Why the last of those could not be encoded.
        package internal(set) var lastEncodingFailure: FrameError? {
            didSet { lastFailure = lastEncodingFailure ?? lastFailure }
        }
        /// Connections that were reset because the client did not read: see `Options.maximumUnsent`.
        package internal(set) var overflowCount = 0
        /// Bytes received.
        package internal(set) var bytesReceived = 0
        /// Bytes that the kernel took from us.
        package internal(set) var bytesSent = 0

        /// The latest requests and cancel frames, oldest first.
        private var latest = Deque<Frame>()
        private var latestBytes = 0
        private let maximumFrames: Int
        private let maximumBytes: Int

        init(maximumFrames: Int, maximumBytes: Int) {
            self.maximumFrames = max(0, maximumFrames)
            self.maximumBytes = max(0, maximumBytes)
        }

        /// The requests and cancel frames in the order of their arrival: the latest of them, as many as
        /// `Options.recordedFrames` and `recordedBytes` allow.
        package var received: [Frame] { (0..<latest.count).map { latest[$0] } }

        /// The requests in the order of their arrival: the latest 10,000, of 16 MiB at most.
        public var requests: [Frame] { received.filter { $0.kind != .cancel } }

        /// The cancel frames in the order of their arrival, the latest of them.
        public var cancels: [Frame] { received.filter { $0.kind == .cancel } }

        mutating func note(_ frame: Frame) {
            if frame.kind == .cancel { cancelCount += 1 } else { requestCount += 1 }
            guard maximumFrames > 0 else { return }
            latest.append(frame)
            latestBytes += frame.byteCount
            while latest.count > maximumFrames || latestBytes > maximumBytes, let oldest = latest.popFirst() {
                latestBytes -= oldest.byteCount
            }
        }

        /// An empty journal, but for the connections that are still open.
        var emptied: Journal {
            var journal = Journal(maximumFrames: maximumFrames, maximumBytes: maximumBytes)
            journal.connectionCount = connectionCount
            return journal
        }
    }
}

extension LoopbackServer.Journal: CustomStringConvertible {
    /// The counts that are not zero, and why the last frame was refused that was.
    public var description: String {
        let counts = [
            (requestCount, "requests"), (cancelCount, "cancels"), (pingCount, "pings"), (pongCount, "pongs"),
            (requestPartCount, "request parts"),
            (replyCount, "replies"),
            (droppedReplyCount, "dropped replies"), (connectionCount, "open connections"),
            (totalConnections, "connections in all"), (malformedCount, "malformed connections"),
            (refusedConnectionCount, "refused connections"), (handshakeFailureCount, "failed handshakes"),
            (unansweredCount, "bodies without a reply"), (unencodableCount, "frames not encodable"),
            (overflowCount, "overflows"),
        ]
        var words = counts.filter { $0.0 != 0 }.map { "\($0.0) \($0.1)" }
        if let lastHandshakeFailure { words.append("last failed handshake: \(lastHandshakeFailure)") }
        if let lastMalformation { words.append("last malformation: \(lastMalformation)") }
        if let lastEncodingFailure { words.append("last encoding failure: \(lastEncodingFailure)") }
        if let lastBodyFailure { words.append("last failure of a body: \("\(lastBodyFailure)".asMessage)") }
        return words.isEmpty ? "nothing" : words.joined(separator: ", ")
    }
}
