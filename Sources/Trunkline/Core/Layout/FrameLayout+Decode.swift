extension FrameLayout: FrameCodec {
    /// By serial where the layout has a serial field, otherwise in order.
    public var matching: ResponseMatching { inbound.serial == nil ? .inOrder : .serial(roles.serials) }

    /// A frame of the role `cancel`; `nil` when the layout has no such role or no serial field.
    public func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
        guard let cancel = roles.cancel, outbound.serial != nil else { return nil }
        return Frame(.cancel, type: cancel, serial: serial)
    }

    /// A frame of the role `ping` or `heartbeat`; `nil` when the layout has neither.
    ///
    /// Its serial is one of those below the requests' serials, in turn, so that late answers can be told apart; 0 where
    /// there are none but that.
    public func ping(number: UInt64) -> Frame? {
        if var ping = marks?.heartbeat {
            // Of a server, clients would take it for a request unless its kind says otherwise.
            if isServerSide, outbound.kind?.lists(.ping) != true { return nil }
            (ping.kind, ping.serial) = (.ping, reservedSerial(number))
            return ping
        }
        guard let type = roles.ping else { return nil }
        return Frame(.ping, type: type, serial: reservedSerial(number))
    }

    /// A request of the role `closing`, without a body; `nil` when the layout has no such role.
    public func closingFrame() -> Frame? {
        guard !isServerSide, let type = roles.closing else { return nil }
        return Frame(.request, type: type, serial: reservedSerial(0))
    }

    /// One of the serials that no request has, in turn, but for 0.
    private func reservedSerial(_ number: UInt64) -> SerialNumber {
        let reserved = outbound.serial == nil ? 0 : roles.serials.lowerBound
        return reserved > 1 ? 1 + number % (reserved - 1) : 0
    }

    /// A frame of the role `pong`, or `ping` when that has no type of its own, with the serial of `ping`; `nil` when the
    /// layout has no role `ping`. The answer to a `heartbeat` has its type and body.
    public func pong(answering ping: Frame) -> Frame? {
        if marks?.heartbeat != nil { return Frame(.pong, type: ping.type, serial: ping.serial, body: ping.body) }
        return (roles.pong ?? roles.ping).map { Frame(.pong, type: $0, serial: ping.serial) }
    }

    /// True unless the layout has a role `pong` or `heartbeat`, or marks what is a response.
    public var pongsLookLikePings: Bool {
        roles.pong == nil && marks?.response == nil && marks?.heartbeat == nil && inbound.kind == nil
    }

    /// What the field of the role `retryAfter` says; `nil` when the layout has no such role or the field is 0.
    public func retryAfter(in goAway: Frame) -> Duration? {
        guard let hint = marks?.retryAfter, let number = goAway[hint.name] else { return nil }
        return hint.duration(of: number)
    }

    /// The same layout as the server sees it: decodes requests and encodes responses.
    public func serverSide() -> any FrameCodec {
        if isServerSide { return self }
        var layout = self
        swap(&layout.inbound, &layout.outbound)
        swap(&layout.inboundLimits, &layout.outboundLimits)
        layout.isServerSide = true
        return layout
    }

    /// Takes one frame from the front of `input`; `nil`, with nothing taken, when it is not complete.
    ///
    /// Throws `illegalLength`, `missingBody`, `unexpectedBytes`, `checksumMismatch`, `repetitionMismatch` or
    /// `unknownType`; the first three as soon as the bytes at fault are there. On the client's side, a frame with a serial
    /// whose type no role explains is returned with `malformedReason` set to `unknownType` instead, and one without the
    /// body that `requiringBody(inResponsesTo:)` asks for with `missingBody`: they end where their length says.
    public func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        let plan = inbound
        guard input.count >= plan.header.count else {
            if let size = try plan.checkStart(of: input, inboundLimits) { input.await(size) }
            return nil
        }
        let (parts, numbers) = try plan.read(input, inboundLimits)
        guard let parts else { return nil }
        guard let numbers else {
            input.await(parts.trailer + plan.trailer.count)
            return nil
        }
        input.skip(parts.body)
        guard let body = input.readBytes(parts.trailer &- parts.body) else { return nil }
        input.skip(plan.trailer.count)

        let kind = roles.kind(ofType: numbers.type, isServerSide)
        let frame = Frame(
            kind: kind,
            type: numbers.type,
            serial: numbers.serial,
            status: numbers.status,
            isErrorResponse: kind == .response && plan.status != nil && !roles.success.contains(numbers.status),
            body: body,
            fields: numbers.fields
        )
        if let marks { return try classified(frame, number: numbers.kind, marks) }
        return frame
    }
}

extension Roles {
    /// What a received frame of type `type` is for.
    @inline(__always)
    func kind(ofType type: UInt32, _ isServerSide: Bool) -> Frame.Kind {
        if type == ping { return .ping }
        if type == pong { return .pong }
        if type == cancel { return .cancel }
        if let part, part.contains(type) { return .part }
        if isServerSide { return .request }
        if let push, push.contains(type) { return .push }
        return .response
    }
}
