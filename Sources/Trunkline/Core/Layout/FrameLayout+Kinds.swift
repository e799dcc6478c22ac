// What frames are for, in layouts where more than type numbers tells it. Kept out of the way of those where they do.

extension FrameLayout {
    /// The received `frame` as the protocol's marks say it is; `number` is what its kind field holds.
    ///
    /// A frame that the protocol does not have is malformed, and so is one without the body that it must have. Throws
    /// `unknownType` where that could not be told from what follows.
    @inline(never)
    func classified(_ frame: consuming Frame, number: UInt64) throws(FrameError) -> Frame {
        var frame = frame
        frame.kind = try kind(of: frame, number: number)
        let statusFails = inbound.shape.status != nil && !roles.success.contains(frame.status)
        let isFailure = declared.failure?.matches(frame, typeBits: roles.typeBits) ?? false
        // Where no field is the status, the number that says failure is.
        let code =
            isFailure && inbound.shape.status == nil
            ? declared.failureCode.map { $0.code(in: frame) ?? 0 } ?? declared.failure?.code(in: frame) : nil
        frame.type &= ~roles.typeBits
        frame.isErrorResponse = frame.kind == .response && (statusFails || isFailure)
        if frame.isErrorResponse, let code { frame.status = code }
        if let judge = declared.kind, !isServerSide {
            guard let kind = judge(frame) else {
                return try malformed(frame, FrameError(.unknownType, "the role kind knows no such frame: \(frame)"))
            }
            frame.kind = kind
            frame.isErrorResponse = kind == .response && (statusFails || isFailure)
            if let code { frame.status = frame.isErrorResponse ? code : 0 }
        }
        do throws(FrameError) {
            try check(frame)
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
        guard !isServerSide, inbound.shape.serial != nil || error.code == .missingBody else { throw error }
        var frame = copy frame
        frame.markMalformed(error.code)
        // Perhaps the answer to the request with its serial, perhaps none: that request is given up, and not answered.
        if error.code == .unknownType { frame.kind = .part }
        return frame
    }

    private func kind(of frame: borrowing Frame, number: UInt64) throws(FrameError) -> Frame.Kind {
        var kind: Frame.Kind = isServerSide ? .request : .response
        // Whether a response is known to be one, and not only not known to be anything else.
        var isAnswer = false
        if let slot = inbound.shape.kind {
            guard let listed = slot.kind(of: number) else {
                throw FrameError(.unknownType, "the kind field holds \(hexadecimal(number)), which it does not list")
            }
            kind = listed
            isAnswer = kind == .response
        } else if let response = declared.response {
            isAnswer = response.matches(frame, typeBits: roles.typeBits)
            let isPush = !isServerSide && declared.push == nil
            kind = isAnswer ? .response : isPush ? .push : .request
        }
        guard kind == .request || kind == .response || kind == .push else { return kind }

        let type = frame.type & ~roles.typeBits
        if type == roles.ping { return isAnswer ? .pong : .ping }
        if type == roles.pong { return .pong }
        if type == roles.cancel, !isAnswer { return .cancel }
        let mayBeHeartbeat = inbound.shape.serial != nil && roles.isReserved(frame.serial)
        if isServerSide {
            guard mayBeHeartbeat, let heartbeat = declared.heartbeat, type == heartbeat.type else { return kind }
            return frame.body == heartbeat.body ? .ping : kind
        }
        if !isAnswer || !roles.tellsPushes {
            if let goAway = declared.goAway, goAway.matches(frame, typeBits: roles.typeBits) { return .goAway }
            if let push = declared.push, push.matches(frame, typeBits: roles.typeBits) { return .push }
        }
        if kind == .response, mayBeHeartbeat, declared.heartbeat != nil { return .pong }
        if kind == .response, let part = declared.part, part.matches(frame, typeBits: roles.typeBits) { return .part }
        return kind
    }

    /// `frame` with the type and the marks of its kind, to be sent.
    ///
    /// Throws `unknownType` for a type that is another role's or that the protocol does not have, and `missingBody`.
    @inline(never)
    func marked(_ frame: borrowing Frame) throws(FrameError) -> Frame {
        var frame = copy frame
        guard frame.type & roles.typeBits == 0 else {
            let bits = hexadecimal(frame.type & roles.typeBits)
            throw FrameError(.unknownType, "type \(hexadecimal(frame.type)) has bits that mark a role: \(bits)")
        }
        frame.type = try wireType(of: frame)
        if isServerSide {
            try mark(&frame, declared.goAway, as: .goAway, amongst: [.response, .part, .push, .request])
            try mark(&frame, declared.pushMark, as: .push, amongst: [.response, .part, .request])
            try mark(&frame, declared.part, as: .part, amongst: [.response])
        }
        try check(frame)
        // Where the status says so, it needs no mark, which could take the place of a type or a number of its own.
        let statusFails = outbound.shape.status != nil && !roles.success.contains(frame.status)
        if frame.kind == .response, let failure = declared.failure,
            frame.isErrorResponse ? !statusFails : isServerSide
        {
            let failureCode = frame.isErrorResponse ? declared.failureCode : nil
            if let failureCode { try failureCode.write(to: &frame) }
            let code = outbound.shape.status == nil && failureCode == nil ? frame.status : 0
            let (isFailure, bits) = (frame.isErrorResponse, roles.typeBits)
            try failure.mark(&frame, isFailure, as: "a failure", code: code, typeBits: bits, in: outbound.shape)
        }
        // A pong with a type of its own needs none of a response.
        let isPongByType = frame.kind == .pong && roles.pong != nil && declared.response?.types != nil
        if let response = declared.response, !isPongByType {
            let isAnswer = frame.kind == .response || frame.kind == .part || frame.kind == .pong
            try response.mark(&frame, isAnswer, as: "a response", typeBits: roles.typeBits, in: outbound.shape)
        }
        return frame
    }

    private func mark(
        _ frame: inout Frame,
        _ role: Role?,
        as kind: Frame.Kind,
        amongst others: [Frame.Kind]
    ) throws(FrameError) {
        guard let role, frame.kind == kind || others.contains(frame.kind) else { return }
        // What is known to be a response is neither a push nor a goAway, whatever its type.
        if roles.tellsPushes, kind != .part, frame.kind == .response || frame.kind == .part { return }
        try role.mark(&frame, frame.kind == kind, as: "a \(kind)", typeBits: roles.typeBits, in: outbound.shape)
    }

    /// Refuses types that the protocol does not have, and responses without the body that they must have.
    private func check(_ frame: borrowing Frame) throws(FrameError) {
        switch frame.kind {
        case .request, .response, .part: break
        case .push, .ping, .pong, .cancel, .goAway: return
        }
        // A frame to send may have its marks by now.
        let type = frame.type & ~roles.typeBits
        if let requests = roles.requests, !requests.contains(type), type != roles.closing, type != roles.window,
            frame.kind != .part || declared.part?.types == nil
        {
            let known = list(requests)
            throw FrameError(.unknownType, "type \(hexadecimal(type)) is none of the role requests (\(known))")
        }
        guard frame.kind == .response, !frame.isErrorResponse, frame.body.isEmpty else { return }
        if let bodies = roles.bodies, bodies.contains(type) {
            throw FrameError(.missingBody, "a response of type \(hexadecimal(type)) has no body")
        }
    }
}
