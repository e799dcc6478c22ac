/// What a link that closes or drains still has to write.
extension Link {
    /// How long a closing link waits for its socket without progress: no caller waits for these bytes.
    static let stallLimit = Duration.seconds(2)

    struct Left {
        var position = OutboundPosition.first
        var unwritten = 0
        /// The bytes that the socket has taken from TLS; `nil` without TLS.
        var sent: Int?

        /// Frames encoded after `earlier` add to `unwritten` only after everything encoded before has been written.
        func isLess(than earlier: Left) -> Bool {
            if let sent { return sent > earlier.sent ?? 0 }
            return position > earlier.position || position == earlier.position && unwritten < earlier.unwritten
        }
    }

    var left: Left {
        Left(
            position: state.machine.outbound.firstUnwritten,
            unwritten: state.machine.outbound.unwrittenCount,
            sent: secured.flatMap { $0.takenMark > 0 ? $0.sentMark : nil }
        )
    }
}
