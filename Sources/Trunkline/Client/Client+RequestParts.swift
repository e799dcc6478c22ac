/// Parts of requests on the loop: taken in, given up, and ended with their requests.
extension Client {
    /// A caller adds a frame to a request; `channel` is that of the request's reply.
    func follow(_ part: consuming RequestPart, _ channel: ReplyChannel) {
        guard codec.matching != .inOrder else { return part.fail(.notAddressable, isSent: false) }
        guard queue[part.request] != nil else {
            return part.fail(channel.ending ?? .replyEnded, isSent: false)
        }
        part.endsRequest = part.frame.kind != .part && !codec._isWindowUpdate(part.frame)
        parts.hold(part, requestType: channel.type)
    }

    /// A caller gives a part up.
    func cancelPart(_ id: RequestID) {
        let error = ClientError(.cancelled, .unknown, "cancelled by the caller")
        if let held = parts.takeHeld(id) { return held.fail(error, isSent: false) }
        guard parts.queued[id] != nil else { return }  // it has ended already
        if connection.inCallOfOwner({ $0.removePart(id) }) {
            parts.takeQueued(id)?.fail(error, isSent: false)
        } else {
            // Half of it is written: the other half goes out as well.
            parts.takeContinuation(of: id)?.resume(returning: error)
        }
    }

    /// The request of `id` has ended, for the reason of `error`: its parts end with it, and those that have not started are
    /// not written any more. Returns the request if the server waits for the rest of it.
    @discardableResult
    func endParts(of id: RequestID, _ error: ClientError) -> RequestParts.Target? {
        guard parts.hasTargets, var ended = parts.end(id) else { return nil }
        for part in ended.queued {
            let isSent = !part.isDropped && !connection.inCallOfOwner { $0.removePart(part.id) }
            if isSent, part.endsRequest { ended.target.isIncomplete = false }
            part.fail(error, isSent: isSent)
        }
        for part in ended.held { part.fail(error, isSent: false) }
        return ended.target.isIncomplete ? ended.target : nil
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
