import TrunklineCore

/// Protocols matched in order, where a link is no better than its oldest answer.
///
/// A server that leaves an answer out shifts all that follow, and nothing in the protocol can tell. But such a link is
/// never level again, with an answer for every request: whenever it comes to rest, the latest request is out of time.
extension Exchange {
    /// What there is to know about the order of responses.
    struct Order: Sendable {
        /// Says what may follow what; `nil` where responses match by serial.
        let codec: (any FrameCodec)?
        let maximumStalls: Int?
        /// How often in a row the present link came to rest with nothing but requests that were given up, for one at least
        /// was out of time.
        var stalls = 0
        /// Whether requests that had started on the present link were given up in this batch, and for want of time.
        var (hasGivenUp, hasTimedOut) = (false, false)

        init(of codec: any FrameCodec, _ options: ClientOptions.Liveness) {
            self.codec = codec.matching == .inOrder ? codec : nil
            maximumStalls = options.maximumStalls.map { max(1, $0) }
        }
    }

    /// A request that had started on the present link was given up.
    mutating func noteGivenUp(_ code: ClientError.Code) {
        if code == .timedOut { silence.latest += 1 }
        guard order.codec != nil else { return }
        order.hasGivenUp = true
        if code == .timedOut { order.hasTimedOut = true }
    }

    /// Whether requests that had started on the present link were given up in this batch: `isLinkSpent` and `silence` are to
    /// be asked.
    var hasGivenUp: Bool { order.hasGivenUp || silence.latest > 0 }

    /// Whether the oldest answer that is due on the present link may still be on its way: it holds up those behind it. Where
    /// responses match by serial, none does.
    var isHeadAwaited: Bool {
        mutating get { order.codec != nil && table.isFirstAwaited(before: unstarted) }
    }

    /// Whether the link is to be left: the next request would wait for an answer that nobody wants, or it has stalled too
    /// often in a row. Asked once, at the end of every batch.
    ///
    /// - Parameter countsStalls: Whether what timed out was for the server to answer, and not held back by us.
    mutating func isLinkSpent(countsStalls: Bool) -> Bool {
        guard order.hasGivenUp else { return false }
        let hasTimedOut = order.hasTimedOut
        (order.hasGivenUp, order.hasTimedOut) = (false, false)
        if table.isHeldInVain { return true }
        guard hasTimedOut, countsStalls, let maximumStalls = order.maximumStalls, table.isForsaken(before: unstarted)
        else {
            return false
        }
        order.stalls += 1
        return order.stalls >= maximumStalls
    }

    /// An answer has come on the present link.
    mutating func noteAnswer() {
        if table.isLevel(before: unstarted) { order.stalls = 0 }
    }
}
