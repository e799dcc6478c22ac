import TrunklineCore
import TrunklineIO

/// Follow-ups on the loop: taken in, given up, and ended with their requests.
extension Client {
    /// A caller adds a frame to a request; `channel` is that of the request's reply.
    func follow(_ followUp: consuming FollowUp, _ channel: ReplyChannel) {
        guard exchange.order.codec == nil else { return followUp.fail(.notAddressable, isSent: false) }
        guard let entry = exchange.table[followUp.request] else {
            return followUp.fail(channel.ending ?? .replyEnded, isSent: false)
        }
        let isUpdate = (codec as? FrameLayout)?.isWindowUpdate(followUp.frame) ?? false
        followUp.endsRequest = followUp.frame.kind != .part && !isUpdate
        exchange.followUps.hold(followUp, requestType: entry.type)
    }

    /// A caller gives a follow-up up.
    func cancelFollowUp(_ ticket: Ticket) {
        let error = ClientError(.cancelled, .unknown, "cancelled by the caller")
        if let held = exchange.followUps.takeHeld(ticket) { return held.fail(error, isSent: false) }
        guard exchange.followUps.queued[ticket] != nil else { return }  // it has ended already
        flushOutgoing()
        if connection.assumeIsolated({ $0.remove(of: ticket) }) {
            exchange.followUps.takeQueued(ticket)?.fail(error, isSent: false)
        } else {
            // Half of it is written: the other half goes out as well.
            exchange.followUps.takeSuspension(of: ticket)?.resume(returning: error)
        }
    }

    /// A frame cannot be encoded; it is out of the outbound queue.
    func refused(_ ticket: Ticket, _ cause: FrameError) {
        let error = ClientError(.invalidRequest, .notSent, "the frame cannot be encoded", cause: cause)
        if ticket >= FollowUp.firstTicket {
            exchange.followUps.takeQueued(ticket)?.fail(error, isSent: false)
        } else {
            exchange.refused(ticket, error)
            endFollowUps(of: ticket, error)
        }
    }

    /// The request of `ticket` has ended, for the reason of `error`: its follow-ups end with it, and those that have not
    /// started are not written any more. Returns the request if the server waits for the rest of it.
    @discardableResult
    func endFollowUps(of ticket: Ticket, _ error: ClientError) -> FollowUps.Target? {
        guard exchange.followUps.hasTargets, var ended = exchange.followUps.end(ticket) else { return nil }
        flushOutgoing()
        for followUp in ended.queued {
            let isSent = !followUp.isDropped && !connection.assumeIsolated { $0.remove(of: followUp.ticket) }
            if isSent, followUp.endsRequest { ended.target.isIncomplete = false }
            followUp.fail(error, isSent: isSent)
        }
        for followUp in ended.held { followUp.fail(error, isSent: false) }
        return ended.target.isIncomplete ? ended.target : nil
    }

    /// Ends the follow-ups of the requests that were answered in this batch. A server that has answered before it had all
    /// of a request is told that no more of it comes: it could take the next request with this serial for the rest.
    func endAnswered() {
        for request in exchange.followUps.takeAnswered() {
            guard let target = endFollowUps(of: request.ticket, .replyEnded),
                let frame = codec.cancelFrame(for: request.serial, type: target.type)
            else { continue }
            if let position = request.positions?.lowerBound {
                let item = OutboundQueue.Item(frame, ticket: 0)
                connection.assumeIsolated { $0.enqueueRetired(item, for: position) }
            } else {
                exchange.send(frame)
            }
        }
    }
}

extension ClientError {
    static var replyEnded: ClientError {
        ClientError(.closed, .notSent, "the reply has ended, and its request with it")
    }

    static var notAddressable: ClientError {
        ClientError(.invalidRequest, .notSent, "the protocol has no serials to say which request a frame belongs to")
    }
}
