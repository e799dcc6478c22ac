// MARK: - Bytes in

extension FrameLayout {
    /// Takes one frame from the front of `input`; `nil`, with nothing taken, when it is not complete.
    ///
    /// Throws `illegalLength`, `missingBody`, `unexpectedBytes`, `checksumMismatch`, `repetitionMismatch` or
    /// `unknownType`; the first three as soon as the bytes at fault are there. On the client's side, a frame with a serial
    /// whose type no role explains is returned with `malformedReason` set to `unknownType` instead, and one without the
    /// body that `requiringBody(inResponsesTo:)` asks for with `missingBody`: they end where their length says.
    public func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        let plan = inbound
        guard let (parts, isComplete) = try plan.check(input) else { return nil }
        guard isComplete else {
            input.await(parts.trailer + plan.shape.trailer.count)
            return nil
        }
        var (frame, number) = plan.header(of: input, parts)
        input.skip(parts.body)
        guard let body = input.readBytes(parts.trailer &- parts.body) else { return nil }
        input.skip(plan.shape.trailer.count)
        frame.body = body
        frame.kind = roles.kind(ofType: frame.type, isServerSide)
        let fails = plan.shape.status != nil && !roles.success.contains(frame.status)
        frame.isErrorResponse = fails && frame.kind == .response
        return roles.hasMarks ? try classified(frame, number: number) : frame
    }

    /// Appends at most `limit` complete frames of `input` to `frames`. Throws as `decode(_:)` does.
    public mutating func _decodeAll(
        _ input: inout ReceiveBuffer,
        into frames: inout [Frame],
        limit: Int
    ) throws(FrameError) {
        let plan = inbound
        let isPlain = plan.isPlain && !roles.hasMarks
        var rest = limit
        while rest > 0, !input.isEmpty, let frame = try isPlain ? decodePlain(&input, plan) : decode(&input) {
            rest &-= 1
            input.stopAwaiting()
            frames.append(frame)
        }
    }

    /// As `decode`, where the header is type, serial and length, four bytes each, big-endian, and there is nothing else
    /// around the body: the commonest layout of all, read without asking for every frame what it has.
    @inline(__always)
    private func decodePlain(_ input: inout ReceiveBuffer, _ plan: LayoutPlan) throws(FrameError) -> Frame? {
        guard let length = input.integer(at: 8, as: UInt32.self) else { return nil }
        guard plan.limits.lengths.contains(UInt64(length)) else {
            throw plan.limits.illegalLength(UInt64(length), plan.shape.lengthOfEmpty)
        }
        let bodySize = Int(length) &- plan.shape.lengthOfEmpty
        guard input.count &- 12 >= bodySize else {
            input.await(12 &+ bodySize)
            return nil
        }
        guard
            let type = input.readInteger(as: UInt32.self),
            let serial = input.readInteger(as: UInt32.self),
            input.skip(4),
            let body = input.readBytes(bodySize)
        else { return nil }
        return Frame(roles.kind(ofType: type, isServerSide), type: type, serial: SerialNumber(serial), body: body)
    }

    // MARK: Bytes out

    /// Appends `frame` to `output`. A ping, pong or cancel frame of type 0 gets the type of its role.
    ///
    /// Throws `illegalLength` for a body that is too long or too short; `unknownType` for a type that does not fit its
    /// field, that is another role's, or where a ping, cancel, part or goAway frame finds no role; and `malformed` for another number
    /// that does not fit its field, for a named field that the layout does not declare or that has another size, and
    /// for an error response where the layout has no way to say so.
    public func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        if roles.hasMarks {
            let frame = try marked(frame)
            try write(frame, type: frame.type, into: &output)
        } else {
            try write(frame, type: wireType(of: frame), into: &output)
        }
    }

    @inline(__always)
    private func write(_ frame: borrowing Frame, type: UInt32, into output: inout SendBuffer) throws(FrameError) {
        let plan = outbound
        if frame.isErrorResponse || !frame.fields.isEmpty { try checkFields(of: frame) }
        let bodySize = frame.body.count
        guard plan.limits.bodySizes.contains(bodySize) else { throw plan.limits.illegalBody(bodySize) }

        if plan.isPlain, let serial = UInt32(exactly: frame.serial) {
            let length = UInt32(truncatingIfNeeded: bodySize &+ plan.shape.lengthOfEmpty)
            output.append(integers: type, serial, length)
            return bodySize > 0 ? output.append(frame.body) : ()
        }
        let start = output.gathered.count
        var extra = 0
        if let varint = plan.shape.varint {
            extra = try plan.appendVariableHeader(bodySize: bodySize, varint, to: &output.gathered)
        } else {
            output.gathered.append(contentsOf: plan.shape.header)
        }
        let bodyStart = output.gathered.count
        if bodySize > 0 { output.append(frame.body) }
        // A large body is not between header and trailer: they are neighbours in `gathered`.
        let parts = FrameParts(header: start, extra: extra, body: bodyStart, trailer: output.gathered.count)
        if !plan.shape.trailer.isEmpty { output.gathered.append(contentsOf: plan.shape.trailer) }

        var span = output.gathered.mutableSpan
        var bytes = unsafe span.mutableBytes
        try plan.writeNumbers(of: frame, type: type, at: parts, into: &bytes)
        if !plan.shape.checksums.isEmpty { try plan.writeChecksums(of: frame.body, at: parts, into: &bytes) }
    }

    @inline(__always)
    func wireType(of frame: borrowing Frame) throws(FrameError) -> UInt32 {
        switch frame.kind {
        case .request:
            // The answer would be taken for something else, and the caller would wait in vain.
            if let role = roleName(ofRequest: frame.type) { throw misuse(of: frame.type, by: role) }
            return frame.type
        case .push:
            if let push = roles.push, !push.contains(frame.type) {
                throw misuse(of: frame.type, by: "no push: these have \(list(push))")
            }
            return frame.type
        case .ping:
            if let type = frame.type != 0 ? frame.type : roles.ping { return type }
            // Of a server, clients would take the request that serves as a ping for a request.
            if let heartbeat = declared.heartbeat, !isServerSide || outbound.shape.kind?.lists(.ping) == true {
                return heartbeat.type
            }
        case .pong:
            if let type = frame.type != 0 ? frame.type : roles.pong ?? roles.ping ?? declared.heartbeat?.type {
                return type
            }
        case .cancel:
            if let type = frame.type != 0 ? frame.type : roles.cancel { return type }
        case .response:
            // Taken for a part, it would leave its caller waiting.
            if isServerSide, !roles.hasMarks, let part = roles.part, part.contains(frame.type) {
                throw misuse(of: frame.type, by: "that of a part")
            }
            return frame.type
        case .part:
            if !roles.hasMarks, let part = roles.part {
                if part.contains(frame.type) { return frame.type }
                if frame.type == 0 { return part.lowerBound }
                throw misuse(of: frame.type, by: "not that of a part")
            }
            // A mark is one of responses only.
            if !isServerSide, outbound.shape.kind == nil { break }
            if declared.part != nil || declared.kind != nil { return frame.type }
            if outbound.shape.kind?.lists(.part) == true { return frame.type }
        case .goAway:
            if declared.goAway != nil || declared.kind != nil { return frame.type }
            if outbound.shape.kind?.lists(.goAway) == true { return frame.type }
        }
        throw FrameError(.unknownType, "the layout cannot say that a frame is a \(frame.kind): it has no such role")
    }

    @inline(never)
    private func misuse(of type: UInt32, by role: String) -> FrameError {
        FrameError(.unknownType, "in this layout, type \(hexadecimal(type)) is \(role)")
    }

    /// The types that a role has, in words.
    func list(_ types: ClosedRange<UInt32>) -> String {
        let first = hexadecimal(types.lowerBound)
        return types.count == 1 ? "type \(first)" : "types \(first) to \(hexadecimal(types.upperBound))"
    }

    /// Refuses what would be lost without a word.
    func checkFields(of frame: borrowing Frame) throws(FrameError) {
        if frame.isErrorResponse, outbound.shape.status == nil, declared.failure == nil {
            let lack = "no status and no role failure"
            throw FrameError(.malformed, "the layout has \(lack) to say that a frame is an error response")
        }
        for field in frame.fields {
            guard let item = outbound.shape.named.first(where: { $0.name == field.name }) else {
                // What typed requests say of their body in every protocol, whether or not it has a place for it.
                if field.name == ContentType.fieldName { continue }
                throw FrameError(.malformed, "the layout has no field \"\(field.name)\"")
            }
            let mistake: String? =
                switch field.value {
                case .number: item.isBytes ? "holds bytes, not a number" : nil
                case .bytes where !item.isBytes: "holds a number, not bytes"
                case .bytes(let run) where run.count != item.slot.width:
                    "has \(item.slot.width) bytes, not \(run.count)"
                case .bytes: nil
                }
            if let mistake { throw FrameError(.malformed, "the field \"\(field.name)\" \(mistake)") }
        }
    }

    /// What a request of type `type` would be taken for, if anything.
    @inline(__always)
    private func roleName(ofRequest type: UInt32) -> String? {
        if type == roles.ping { return "the ping" }
        if type == roles.pong { return "the pong" }
        if type == roles.cancel { return "the cancellation" }
        // Where a response is known to be one, requests may have the types of pushes.
        if roles.tellsPushes { return nil }
        if let push = roles.push, push.contains(type) { return "a push" }
        guard roles.hasMarks, let goAway = declared.goAway?.types, goAway.contains(UInt64(type)) else { return nil }
        // What is a goAway from the server may be our own farewell.
        return type == roles.closing ? nil : "a goAway"
    }

    // MARK: For test servers

    /// The first status that is not an error response.
    package var successStatus: UInt32 { outbound.shape.status == nil ? 0 : roles.success.lowerBound }

    /// The header of `frame` as it would be if its length were the largest that the field holds.
    package func headerWithAbsurdLength(of frame: Frame) throws(FrameError) -> [UInt8] {
        var output = SendBuffer()
        try encode(frame, into: &output)
        let shape = outbound.shape
        if shape.varint != nil {
            return output.bytes.prefix(shape.length.offset) + [UInt8](repeating: 0xFF, count: 9) + [0x7F]
        }
        var header = Array(output.bytes.prefix(shape.header.count))
        for index in 0..<shape.length.width { header[shape.length.offset + index] = 0xFF }
        return header
    }
}
