import TrunklineCore

// Layouts in which more than type numbers decides the kind of a frame. Kept apart so that others do not pay for it.

extension FrameLayout {
    /// A frame that the protocol does not have, or that lacks a required body, is returned as malformed. Throws
    /// `unknownType` if such a frame cannot be distinguished from a response.
    @inline(never)
    func classified(_ frame: consuming Frame, number: UInt64) throws(FrameError) -> Frame {
        var frame = frame
        frame.kind = try kind(of: frame, number: number)
        let statusFails = inbound.shape.status != nil && !roles.success.contains(frame.status)
        let isFailure = declared.failure?.matches(frame, typeBits: roles.typeBits) ?? false
        // Without a status field, the number that marks a failure is the status.
        let code =
            isFailure && inbound.shape.status == nil
            ? declared.failureCode.map { $0.code(in: frame) ?? 0 } ?? declared.failure?.code(in: frame) : nil
        frame.type &= ~roles.typeBits
        frame.isErrorResponse = frame.kind == .response && (statusFails || isFailure)
        if frame.isErrorResponse, let code { frame.status = code }
        if let judge = declared.kind, !isServerSide {
            guard let kind = judge(frame) else {
                return try malformed(
                    frame,
                    FrameError(.unknownType, "the closure of the role \"kind\" rejected \(frame)")
                )
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
        complete(&frame)
        return frame
    }

    /// The end of `frame` is known, so it costs no more than one request. Throws `error` instead:
    /// - on the client, for an unknown type in a layout matched in order: a wrong guess whether it is a response would
    ///   give every later response to the wrong request;
    /// - on the server, always: it ends a link on which a client sends invalid frames.
    private func malformed(_ frame: borrowing Frame, _ error: FrameError) throws(FrameError) -> Frame {
        guard !isServerSide, inbound.shape.serial != nil || error.code == .missingBody else { throw error }
        var frame = copy frame
        // The number of an unknown type, and the lack of a body, say what is wrong.
        let isPlain = error.code == .missingBody || error.code == .unknownType && inbound.shape.kind == nil
        if isPlain { frame.markMalformed(error.code) } else { frame.markMalformed(because: error) }
        // It may be the response to its serial or not: as a malformed part, it fails that request with fate `unknown`.
        if error.code == .unknownType { frame.kind = .part }
        return frame
    }

    private func kind(of frame: borrowing Frame, number: UInt64) throws(FrameError) -> Frame.Kind {
        var kind: Frame.Kind = isServerSide ? .request : .response
        // Marked as a response, rather than one by default.
        var isAnswer = false
        if let slot = inbound.shape.kind {
            guard let listed = slot.kind(of: number) else {
                throw FrameError(.unknownType, "the kind field holds \(hexadecimal(number)), which is not listed")
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
            if mayBeHeartbeat, let heartbeat = declared.heartbeat, type == heartbeat.type,
                frame.body == heartbeat.body
            {
                return .ping
            }
            return kind == .request && roles.isRequestPart(type) ? .part : kind
        }
        if !isAnswer || !roles.tellsPushes {
            if let goAway = declared.goAway, goAway.matches(frame, typeBits: roles.typeBits) { return .goAway }
            if let push = declared.push, push.matches(frame, typeBits: roles.typeBits) { return .push }
        }
        if kind == .response, mayBeHeartbeat, declared.heartbeat != nil { return .pong }
        if kind == .response, let part = declared.part, part.matches(frame, typeBits: roles.typeBits) { return .part }
        return kind
    }

    @inline(never)
    func marked(_ frame: borrowing Frame) throws(FrameError) -> Frame {
        var frame = copy frame
        guard frame.type & roles.typeBits == 0 else {
            let bits = hexadecimal(frame.type & roles.typeBits)
            throw FrameError(
                .unknownType,
                "type \(hexadecimal(frame.type)) has bits that mark a role: \(bits); leave them 0"
            )
        }
        frame.type = try wireType(of: frame)
        if isServerSide {
            try mark(&frame, declared.goAway, as: .goAway, amongst: [.response, .part, .push, .request])
            try mark(&frame, declared.pushMark, as: .push, amongst: [.response, .part, .request])
            try mark(&frame, declared.part, as: .part, amongst: [.response])
        }
        try check(frame)
        // If the status marks the failure, a further mark could overwrite a type or number of the caller.
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
        // A pong with its own type does not get the mark of a response.
        let isPongByType = frame.kind == .pong && roles.pong != nil && declared.response?.types != nil
        if let response = declared.response, !isPongByType {
            // A part that a client sends is one of a request.
            let isAnswer = frame.kind == .response || frame.kind == .pong || frame.kind == .part && isServerSide
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
        // A frame that is marked as a response is not a push or a goAway, whatever its type.
        if roles.tellsPushes, kind != .part, frame.kind == .response || frame.kind == .part { return }
        try role.mark(&frame, frame.kind == kind, as: "a \(kind)", typeBits: roles.typeBits, in: outbound.shape)
    }

    private func check(_ frame: borrowing Frame) throws(FrameError) {
        switch frame.kind {
        case .request, .response, .part: break
        case .push, .ping, .pong, .cancel, .goAway, .ignored: return
        }
        // A frame to send may already have its marks.
        let type = frame.type & ~roles.typeBits
        if let requests = roles.requests, !requests.contains(type), type != roles.closing, type != roles.window,
            frame.kind != .part || roles.part == nil
        {
            let known = list(requests)
            throw FrameError(.unknownType, "type \(hexadecimal(type)) is not in the role requests (\(known))")
        }
        guard frame.kind == .response, !frame.isErrorResponse, frame.body.isEmpty else { return }
        if let bodies = roles.bodies, bodies.contains(type) {
            throw FrameError(.missingBody, "a response of type \(hexadecimal(type)) must have a body (requiringBody)")
        }
    }
}
