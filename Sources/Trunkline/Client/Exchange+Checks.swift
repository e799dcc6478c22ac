import TrunklineCore

/// Protocols whose responses repeat something of their requests.
extension Exchange {
    /// A response that cannot be the answer to the request that it would be given to.
    struct Mismatch {
        let ticket: Ticket
        let error: FrameError
        /// Whether the order of responses has shifted with it.
        let endsLink: Bool
    }

    /// Compares a response, or a part of one, that came on the present link with its request, if that waits for it.
    mutating func mismatch(of frame: Frame, by codec: any FrameCodec, at now: Instant) -> Mismatch? {
        mismatch(of: frame, table.part(frame.serial, unstarted: unstarted, at: now), codec)
    }

    /// The same for one that came on a link that takes no new requests.
    mutating func mismatch(
        of frame: Frame,
        on session: UInt64,
        _ positions: Range<OutboundPosition>,
        by codec: any FrameCodec,
        at now: Instant
    ) -> Mismatch? {
        mismatch(of: frame, table.part(frame.serial, on: session, positions, at: now), codec)
    }

    private func mismatch(
        of frame: Frame,
        _ answer: RequestTable<Waiter>.Answer,
        _ codec: any FrameCodec
    ) -> Mismatch? {
        guard case .resume(let ticket, let waiter) = answer, let request = waiter.terms?.frame else { return nil }
        do throws(FrameError) {
            try codec.check(frame, against: request)
            return nil
        } catch {
            return Mismatch(ticket: ticket, error: error, endsLink: codec.matching == .inOrder)
        }
    }
}
