/// Parts of requests on the event loop.
extension Client {
    /// Handles a frame that a caller adds to a request. `channel` receives the reply of the request.
    func follow(_ part: consuming RequestPart, _ channel: ReplyChannel) {
        guard codec.matching != .inOrder else { return part.fail(.notAddressable, isSent: false) }
        guard requests[part.request] != nil else {
            return part.fail(channel.ending ?? .replyEnded, isSent: false)
        }
        part.endsRequest = part.frame.kind != .part && !codec.isWindowUpdate(part.frame)
        parts.hold(part, requestType: channel.type)
    }

    /// Looks up the places of requests with held parts.
    func placeParts() {
        guard parts.hasUnplaced else { return }
        parts.place { id in
            switch requests[id]?.place {
            case nil: return .none
            case .waiting?, .delayed?: return .waiting
            case .onLink(_, .written)?: return .none  // a one-way message has no parts
            case .onLink(let session, .response(let number))?:
                let position = connection.inCallOfOwner { $0.position(of: id, number, on: session) }
                return position.map { .onLink(session: session, number, $0) } ?? .none
            }
        }
    }

    /// Cancels a part.
    func cancelPart(_ id: RequestID) {
        let error = ClientError(.cancelled, .unknown, "cancelled by the caller")
        if let held = parts.takeHeld(id) { return held.fail(error, isSent: false) }
        guard let queued = parts.queued[id] else { return }  // it has already ended
        if connection.inCallOfOwner({ $0.remove(queued) }) {
            parts.takeQueued(id)?.fail(error, isSent: false)
        } else {
            // Partly written: the rest must go out as well.
            parts.takeContinuation(of: id)?.resume(returning: error)
        }
    }

    /// Ends the parts of a request that has ended with `error`. Parts that have not started are not written. Returns
    /// the request if the server still expects more of it.
    @discardableResult
    func endParts(of id: RequestID, _ error: ClientError) -> RequestParts.Target? {
        guard parts.hasTargets, var ended = parts.end(id) else { return nil }
        for part in ended.queued {
            let isSent = !part.isDropped && !connection.inCallOfOwner { $0.remove(part) }
            if isSent, part.endsRequest { ended.target.isIncomplete = false }
            part.fail(error, isSent: isSent)
        }
        for part in ended.held { part.fail(error, isSent: false) }
        return ended.target.isIncomplete ? ended.target : nil
    }
}

extension ClientError {
    static var notAddressable: ClientError {
        ClientError(.invalidRequest, .notSent, "the protocol has no serials, so frames cannot be added to a request")
    }
}
