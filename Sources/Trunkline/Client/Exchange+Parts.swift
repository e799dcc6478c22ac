import TrunklineCore

/// Parts of replies that come in.
extension Exchange {
    /// What the arrival of a part asks for.
    enum Consequence {
        case none
        case suspendsReading(ReplyChannel)
        /// The request is to be given up, for this reason.
        case fails(Ticket, ClientError.Code, String, cause: FrameError? = nil)
    }

    /// Hands a part to the one who waits for the reply.
    mutating func take(_ part: Frame, at now: Instant) -> Consequence {
        hand(part, to: table.part(part.serial, unstarted: unstarted, at: now))
    }

    /// Hands a part that came on a link that takes no new requests to the one who waits for the reply.
    mutating func take(
        _ part: Frame,
        on session: UInt64,
        _ positions: Range<OutboundPosition>,
        at now: Instant
    ) -> Consequence {
        hand(part, to: table.part(part.serial, on: session, positions, at: now))
    }

    private mutating func hand(_ part: Frame, to answer: RequestTable<Waiter>.Answer) -> Consequence {
        switch answer {
        case .resume(let ticket, let waiter):
            if let damage = part.damage {
                let cause = FrameError(damage, .reason(damage, of: part))
                return .fails(ticket, .protocolViolation, "a frame of the reply is damaged", cause: cause)
            }
            counters.parts += 1
            switch waiter.take(part, joiningIn: replyRoom) {
            case .taken: return .none
            case .full(let channel): return .suspendsReading(channel)
            case .joins(let joining): table.setWaiter(joining, of: ticket)
            case .exceeds(let message): return .fails(ticket, .overloaded, message)
            }
        case .late: break
        case .unknown: counters.unknownResponses += 1
        }
        return .none
    }
}
