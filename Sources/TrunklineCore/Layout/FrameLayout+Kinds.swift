// What frames are for, in layouts where more than type numbers tells it. Kept out of the way of those where they do.

extension FrameLayout {
    /// The received `frame` as the protocol's marks say it is; `number` is what its kind field holds.
    ///
    /// Throws `unknownType` for a frame that the protocol does not have, and `missingBody`.
    @inline(never)
    func classified(_ frame: consuming Frame, number: UInt64, _ marks: RoleMarks) throws(FrameError) -> Frame {
        var frame = frame
        frame.kind = try kind(of: frame, number: number, marks)
        let statusFails = inbound.status != nil && !roles.success.contains(frame.status)
        let isFailure = marks.failure?.matches(frame, typeBits: marks.typeBits) ?? false
        frame.type &= ~marks.typeBits
        frame.isRejection = frame.kind == .response && (statusFails || isFailure)
        if let judge = marks.kind, !isServerSide {
            guard let kind = judge(frame) else {
                throw FrameError(.unknownType, "the protocol has no such frame: \(frame)")
            }
            frame.kind = kind
            frame.isRejection = kind == .response && (statusFails || isFailure)
        }
        try check(frame, marks)
        return frame
    }

    private func kind(
        of frame: borrowing Frame,
        number: UInt64,
        _ marks: RoleMarks
    ) throws(FrameError) -> Frame.Kind {
        var kind: Frame.Kind = isServerSide ? .request : .response
        // Whether a response is known to be one, and not only not known to be anything else.
        var isAnswer = false
        if let slot = inbound.kind {
            guard let listed = slot.kind(of: number) else {
                throw FrameError(.unknownType, "the layout has no kind \(hexadecimal(number))")
            }
            kind = listed
            isAnswer = kind == .response
        } else if let response = marks.response {
            isAnswer = response.matches(frame, typeBits: marks.typeBits)
            let isPush = !isServerSide && roles.push == nil && marks.push == nil
            kind = isAnswer ? .response : isPush ? .push : .request
        }
        guard kind == .request || kind == .response || kind == .push else { return kind }

        let type = frame.type & ~marks.typeBits
        if type == roles.ping { return isAnswer ? .pong : .ping }
        if type == roles.pong { return .pong }
        if type == roles.cancel, !isAnswer { return .cancel }
        if isServerSide { return kind }
        if !isAnswer || !marks.tellsPushes {
            if let goAway = marks.goAway, goAway.matches(frame, typeBits: marks.typeBits) { return .goAway }
            if let push = roles.push, push.contains(type) { return .push }
            if let push = marks.push, push.matches(frame, typeBits: marks.typeBits) { return .push }
        }
        if kind == .response, let part = marks.part, part.matches(frame, typeBits: marks.typeBits) { return .part }
        return kind
    }

    /// `frame` with the type and the marks of its kind, to be sent.
    ///
    /// Throws `unknownType` for a type that is another role's or that the protocol does not have, and `missingBody`.
    @inline(never)
    func marked(_ frame: borrowing Frame, _ marks: RoleMarks) throws(FrameError) -> Frame {
        var frame = copy frame
        guard frame.type & marks.typeBits == 0 else {
            throw FrameError(.unknownType, "type \(hexadecimal(frame.type)) has a bit that is a mark in this layout")
        }
        frame.type = try wireType(of: frame)
        if isServerSide {
            try mark(&frame, marks.goAway, as: .goAway, amongst: [.response, .part, .push], marks)
            try mark(&frame, marks.push, as: .push, amongst: [.response, .part], marks)
            try mark(&frame, marks.part, as: .part, amongst: [.response], marks)
        }
        try check(frame, marks)
        if frame.kind == .response, let failure = marks.failure, isServerSide || frame.isRejection {
            try failure.mark(&frame, frame.isRejection, as: "a failure", typeBits: marks.typeBits, by: outbound)
        }
        if let response = marks.response {
            let isAnswer = frame.kind == .response || frame.kind == .part || frame.kind == .pong
            try response.mark(&frame, isAnswer, as: "a response", typeBits: marks.typeBits, by: outbound)
        }
        return frame
    }

    private func mark(
        _ frame: inout Frame,
        _ role: Role?,
        as kind: Frame.Kind,
        amongst others: [Frame.Kind],
        _ marks: RoleMarks
    ) throws(FrameError) {
        guard let role, frame.kind == kind || others.contains(frame.kind) else { return }
        // What is known to be a response is neither a push nor a goAway, whatever its type.
        if marks.tellsPushes, kind != .part, frame.kind != kind { return }
        try role.mark(&frame, frame.kind == kind, as: "a \(kind)", typeBits: marks.typeBits, by: outbound)
    }

    /// Refuses types that the protocol does not have, and responses without the body that they must have.
    private func check(_ frame: borrowing Frame, _ marks: RoleMarks) throws(FrameError) {
        switch frame.kind {
        case .request, .response, .part: break
        case .push, .ping, .pong, .cancel, .goAway: return
        }
        if let requests = marks.requests, !requests.contains(frame.type) {
            throw FrameError(.unknownType, "the layout has no type \(hexadecimal(frame.type))")
        }
        guard frame.kind == .response, !frame.isRejection, frame.body.isEmpty else { return }
        if let bodies = marks.bodies, bodies.contains(frame.type) {
            throw FrameError(.missingBody, "a response of type \(hexadecimal(frame.type)) has no body")
        }
    }
}
