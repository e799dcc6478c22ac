public import TrunklineCore

extension LoopbackServer {
    /// A record of what a server has received and done since it was started.
    ///
    /// The journal is a value that does not change: read the server's `journal` again for newer counts, or use
    /// ``LoopbackServer/wait(within:until:)`` to wait for one.
    public struct Journal: Sendable {
        /// The latest error for which the server itself ended a connection, or `nil` for none.
        ///
        /// - A `FrameError`: the client's bytes were not a valid frame, or the codec could not encode a frame of the
        ///   server.
        /// - A `TransportError`: the TLS handshake failed.
        /// - Any other error: the body of ``Reaction/perform(_:)`` threw it.
        public internal(set) var lastFailure: (any Error)?
        /// The number of requests received, including those of handshakes and of restored subscriptions.
        public internal(set) var requestCount = 0
        var cancelCount = 0
        /// The number of pings received.
        public internal(set) var pingCount = 0
        /// The number of pongs received, which answer the server's pings.
        public internal(set) var pongCount = 0
        /// Further parts and window updates of requests of `Reaction.perform`; not in `requestCount` and `received`.
        var requestPartCount = 0
        /// Bodies of `Reaction.perform` that ended without a reply. Their connections were closed.
        var unansweredCount = 0
        var lastBodyFailure: (any Error)? {
            didSet { lastFailure = lastBodyFailure ?? lastFailure }
        }
        var replyCount = 0
        /// Delayed or held replies dropped because their request was cancelled.
        var droppedReplyCount = 0
        /// The number of open connections.
        public internal(set) var connectionCount = 0
        /// The number of connections accepted since the start.
        public internal(set) var totalConnections = 0
        var refusedConnectionCount = 0
        var handshakeCount = 0
        var resumptionCount = 0
        var handshakeFailureCount = 0
        var lastHandshakeFailure: TransportError? {
            didSet { lastFailure = lastHandshakeFailure ?? lastFailure }
        }
        var malformedCount = 0
        var lastMalformation: FrameError? {
            didSet { lastFailure = lastMalformation ?? lastFailure }
        }
        /// The server's frames that the codec could not encode. Their connections were closed.
        var unencodableCount = 0
        var lastEncodingFailure: FrameError? {
            didSet { lastFailure = lastEncodingFailure ?? lastFailure }
        }
        /// Connections reset because the client left more than `Options.maximumUnsent` bytes unread.
        var overflowCount = 0
        var bytesReceived = 0
        var bytesSent = 0

        private var latest = Deque<Frame>()
        private var latestBytes = 0
        private let maximumFrames: Int
        private let maximumBytes: Int

        init(maximumFrames: Int, maximumBytes: Int) {
            self.maximumFrames = max(0, maximumFrames)
            self.maximumBytes = max(0, maximumBytes)
        }

        var received: [Frame] { (0..<latest.count).map { latest[$0] } }

        /// The latest requests, oldest first.
        ///
        /// The journal keeps the latest 10,000 requests and cancel frames, and at most 16 MiB of them.
        public var requests: [Frame] { received.filter { $0.kind != .cancel } }

        /// The latest cancel frames, oldest first, within the limits of ``requests``.
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

        var emptied: Journal {
            var journal = Journal(maximumFrames: maximumFrames, maximumBytes: maximumBytes)
            journal.connectionCount = connectionCount
            return journal
        }
    }
}

extension LoopbackServer.Journal: CustomStringConvertible {
    /// The counts that are not zero, and the last error of each kind.
    public var description: String {
        let counts = [
            (requestCount, "requests"), (cancelCount, "cancels"), (pingCount, "pings"), (pongCount, "pongs"),
            (requestPartCount, "request parts"),
            (replyCount, "replies"),
            (droppedReplyCount, "dropped replies"), (connectionCount, "open connections"),
            (totalConnections, "connections in total"), (malformedCount, "malformed connections"),
            (refusedConnectionCount, "refused connections"), (handshakeFailureCount, "failed handshakes"),
            (unansweredCount, "perform bodies without a reply"), (unencodableCount, "frames that could not be encoded"),
            (overflowCount, "overflows"),
        ]
        var words = counts.filter { $0.0 != 0 }.map { "\($0.0) \($0.1)" }
        if let lastHandshakeFailure { words.append("last failed handshake: \(lastHandshakeFailure)") }
        if let lastMalformation { words.append("last malformed frame: \(lastMalformation)") }
        if let lastEncodingFailure { words.append("last encoding failure: \(lastEncodingFailure)") }
        if let lastBodyFailure { words.append("last error of a perform body: \("\(lastBodyFailure)".asMessage)") }
        return words.isEmpty ? "empty" : words.joined(separator: ", ")
    }
}
