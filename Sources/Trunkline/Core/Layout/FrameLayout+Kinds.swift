// What frames are for, in layouts where more than type numbers tells it. Kept out of the way of those where they do.

extension FrameLayout {
    /// The received `frame` as the protocol's marks say it is; `number` is what its kind field holds.
    ///
    /// A frame that the protocol does not have is malformed, and so is one without the body that it must have. Throws
    /// `unknownType` where that could not be told from what follows.
    @inline(never)
    func classified(_ frame: consuming Frame, number: UInt64, _ marks: RoleMarks) throws(FrameError) -> Frame {
        var frame = frame
        frame.kind = try kind(of: frame, number: number, marks)
        let statusFails = inbound.status != nil && !roles.success.contains(frame.status)
        let isFailure = marks.failure?.matches(frame, typeBits: marks.typeBits) ?? false
        // Where no field is the status, the number that says failure is.
        let code =
            isFailure && inbound.status == nil
            ? marks.failureCode.map { $0.code(in: frame) ?? 0 } ?? marks.failure?.code(in: frame) : nil
        frame.type &= ~marks.typeBits
        frame.isErrorResponse = frame.kind == .response && (statusFails || isFailure)
        if frame.isErrorResponse, let code { frame.status = code }
        if let judge = marks.kind, !isServerSide {
            guard let kind = judge(frame) else {
                return try malformed(frame, FrameError(.unknownType, "the role kind knows no such frame: \(frame)"))
            }
            frame.kind = kind
            frame.isErrorResponse = kind == .response && (statusFails || isFailure)
            if let code { frame.status = frame.isErrorResponse ? code : 0 }
        }
        do throws(FrameError) {
            try check(frame, marks)
        } catch {
            return try malformed(frame, error)
        }
        return frame
    }

    /// The received `frame`, with which only `error` is wrong: its end is known, so it costs no more than itself.
    ///
    /// But where responses match in order it cannot be told whether a frame of an unknown type is one: to be wrong would
    /// give every later response to the wrong request. And a server has no use for what its clients must not send.
    private func malformed(_ frame: borrowing Frame, _ error: FrameError) throws(FrameError) -> Frame {
        guard !isServerSide, inbound.serial != nil || error.code == .missingBody else { throw error }
        var frame = copy frame
        frame.malformedReason = error.code
        // Perhaps the answer to the request with its serial, perhaps none: that request is given up, and not answered.
        if error.code == .unknownType { frame.kind = .part }
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
                throw FrameError(.unknownType, "the kind field holds \(hexadecimal(number)), which it does not list")
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
        if isServerSide { return isHeartbeat(frame, type, marks) ? .ping : kind }
        if !isAnswer || !marks.tellsPushes {
            if let goAway = marks.goAway, goAway.matches(frame, typeBits: marks.typeBits) { return .goAway }
            if let push = roles.push, push.contains(type) { return .push }
            if let push = marks.push, push.matches(frame, typeBits: marks.typeBits) { return .push }
        }
        if kind == .response, marks.heartbeat != nil, inbound.serial != nil, roles.isReserved(frame.serial) {
            return .pong
        }
        if kind == .response, let part = marks.part, part.matches(frame, typeBits: marks.typeBits) { return .part }
        return kind
    }

    /// Whether the server has received the request that serves as a ping.
    private func isHeartbeat(_ frame: borrowing Frame, _ type: UInt32, _ marks: RoleMarks) -> Bool {
        guard let heartbeat = marks.heartbeat, inbound.serial != nil, roles.isReserved(frame.serial) else {
            return false
        }
        return type == heartbeat.type && frame.body == heartbeat.body
    }

    /// `frame` with the type and the marks of its kind, to be sent.
    ///
    /// Throws `unknownType` for a type that is another role's or that the protocol does not have, and `missingBody`.
    @inline(never)
    func marked(_ frame: borrowing Frame, _ marks: RoleMarks) throws(FrameError) -> Frame {
        var frame = copy frame
        guard frame.type & marks.typeBits == 0 else {
            let bits = hexadecimal(frame.type & marks.typeBits)
            throw FrameError(.unknownType, "type \(hexadecimal(frame.type)) has bits that mark a role: \(bits)")
        }
        frame.type = try wireType(of: frame)
        if isServerSide {
            try mark(&frame, marks.goAway, as: .goAway, amongst: [.response, .part, .push, .request], marks)
            try mark(&frame, marks.push, as: .push, amongst: [.response, .part, .request], marks)
            try mark(&frame, marks.part, as: .part, amongst: [.response], marks)
        }
        try check(frame, marks)
        if frame.kind == .response, let failure = marks.failure, isServerSide || frame.isErrorResponse,
            !isToldByStatus(frame)
        {
            let failureCode = frame.isErrorResponse ? marks.failureCode : nil
            if let failureCode { try failureCode.write(to: &frame) }
            let code = outbound.status == nil && failureCode == nil ? frame.status : 0
            let (isFailure, bits) = (frame.isErrorResponse, marks.typeBits)
            try failure.mark(&frame, isFailure, as: "a failure", code: code, typeBits: bits, by: outbound)
        }
        // A pong with a type of its own needs none of a response.
        let isPongByType = frame.kind == .pong && roles.pong != nil && marks.response?.types != nil
        if let response = marks.response, !isPongByType {
            let isAnswer = frame.kind == .response || frame.kind == .part || frame.kind == .pong
            try response.mark(&frame, isAnswer, as: "a response", typeBits: marks.typeBits, by: outbound)
        }
        return frame
    }

    /// Whether the status of `frame` says that it is an error response: then it needs no mark, which could take the
    /// place of a type or a number of its own.
    private func isToldByStatus(_ frame: borrowing Frame) -> Bool {
        frame.isErrorResponse && outbound.status != nil && !roles.success.contains(frame.status)
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
        if marks.tellsPushes, kind != .part, frame.kind == .response || frame.kind == .part { return }
        try role.mark(&frame, frame.kind == kind, as: "a \(kind)", typeBits: marks.typeBits, by: outbound)
    }

    /// Refuses types that the protocol does not have, and responses without the body that they must have.
    private func check(_ frame: borrowing Frame, _ marks: RoleMarks) throws(FrameError) {
        switch frame.kind {
        case .request, .response, .part: break
        case .push, .ping, .pong, .cancel, .goAway: return
        }
        // A frame to send may have its marks by now.
        let type = frame.type & ~marks.typeBits
        if let requests = marks.requests, !requests.contains(type), type != roles.closing,
            frame.kind != .part || marks.part?.types == nil
        {
            throw FrameError(
                .unknownType,
                "type \(hexadecimal(type)) is none of the role requests (\(list(requests)))"
            )
        }
        guard frame.kind == .response, !frame.isErrorResponse, frame.body.isEmpty else { return }
        if let bodies = marks.bodies, bodies.contains(type) {
            throw FrameError(.missingBody, "a response of type \(hexadecimal(type)) has no body")
        }
    }
}
