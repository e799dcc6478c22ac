/// Parts of requests on the event loop.
extension Dispatcher {
    mutating func follow(_ part: consuming RequestPart, _ channel: ReplyChannel) {
        // Without serials, what is sent next belongs to the request that was opened, because it is the latest one.
        if codec.matching.isInOrder, parts.targets[part.request] == nil, requests[part.request] != nil {
            return part.fail(.notAddressable, isSent: false)
        }
        guard requests[part.request] != nil else {
            return part.fail(channel.ending ?? .replyEnded, isSent: false)
        }
        part.endsRequest = part.frame.kind != .part && !codec.isWindowUpdate(part.frame)
        parts.hold(part, requestType: channel.type)
    }

    mutating func placeParts() {
        guard parts.hasUnplaced else { return }
        let (requests, driver) = (requests, driver)
        parts.place { id in
            switch requests[id]?.place {
            case nil: return .none
            case .waiting?, .delayed?: return .waiting
            case .onLink(_, .written)?: return .none  // a one-way message has no parts
            case .onLink(let session, .response(let number))?:
                let position = driver.links.position(of: id, number, on: session)
                return position.map { .onLink(session: session, number, $0) } ?? .none
            }
        }
    }

    mutating func cancelPart(_ id: RequestID) {
        let error = ClientError(.cancelled, .unknown, "cancelled by the caller")
        if let held = parts.takeHeld(id) { return held.fail(error, isSent: false) }
        guard let queued = parts.queued[id] else { return }  // it has already ended
        if driver.links.remove(queued) {
            parts.takeQueued(id)?.fail(error, isSent: false)
        } else {
            // Partly written: the rest must go out as well.
            parts.takeContinuation(of: id)?.resume(returning: error)
        }
    }

    /// Parts that have not started are not written. Returns the request if the server still expects more of it.
    @discardableResult
    mutating func endParts(of id: RequestID, _ error: ClientError) -> RequestParts.Target? {
        guard parts.hasTargets, var ended = parts.end(id) else { return nil }
        for part in ended.queued {
            let isSent = !part.isDropped && !driver.links.remove(part)
            if isSent { ended.target.hasWrittenPart = true }
            if isSent, part.endsRequest { ended.target.isIncomplete = false }
            part.fail(error, isSent: isSent)
        }
        for part in ended.held { part.fail(error, isSent: false) }
        return ended.target.isIncomplete ? ended.target : nil
    }
}
