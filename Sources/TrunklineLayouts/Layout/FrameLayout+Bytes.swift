public import TrunklineCore

extension FrameLayout {
    /// Consumes one frame at the front of `input` and returns it, or returns `nil` and consumes nothing if it is
    /// incomplete.
    ///
    /// On the client side of a layout with serials, a response whose type no role allows, or that the closure `kind`
    /// rejects, is returned with ``Frame/malformedReason`` `unknownType`. In any layout, a response without the body
    /// that ``requiringBody(inResponsesTo:file:line:)`` requires is returned with `missingBody`. The length says where
    /// these frames end, so they do not end the link.
    ///
    /// - Parameter input: The received bytes that are not decoded yet.
    /// - Throws: An error that ends the link: `illegalLength`, `missingBody`, `unexpectedBytes`, `checksumMismatch`,
    ///   `repetitionMismatch` or `unknownType`. The first three are thrown as soon as the invalid bytes have arrived.
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

    /// The fast path of the most common layout: type, serial and length of four bytes each, big-endian, then the body.
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

    /// Appends `frame` to `output`. A ping, pong or cancellation of type 0 gets the type of its role.
    ///
    /// - Parameters:
    ///   - frame: The frame to send.
    ///   - output: The buffer to append to.
    /// - Throws:
    ///   - `illegalLength` for a body that is too long or too short, `missingBody` for a body that is empty but must
    ///     not be;
    ///   - `unknownType` for a type that does not fit its field, that belongs to another role or that the protocol does
    ///     not have, and for a kind (ping, cancel, part, goAway) without a role;
    ///   - `malformed` for another number that does not fit its field, for a named field that the layout does not
    ///     declare or that has another size, and for an error response that the layout cannot express.
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
        if frame.isErrorResponse || frame.hasFields { try checkFields(of: frame) }
        let bodySize = frame.body.count
        guard plan.limits.bodySizes.contains(bodySize) else { throw plan.limits.illegalBody(bodySize) }

        if plan.isPlain, let serial = UInt32(exactly: frame.serial) {
            let length = UInt32(truncatingIfNeeded: bodySize &+ plan.shape.lengthOfEmpty)
            return output.append(integers: type, serial, length, then: frame.body)
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
        // `gathered` does not hold a large body, so header and trailer are adjacent in it.
        let parts = FrameParts(header: start, extra: extra, body: bodyStart, trailer: output.gathered.count)
        if !plan.shape.trailer.isEmpty { output.gathered.append(contentsOf: plan.shape.trailer) }

        var span = output.gathered.mutableSpan
        var bytes = unsafe span.mutableBytes
        try plan.writeNumbers(of: frame, type: type, isFromServer: isServerSide, at: parts, into: &bytes)
        if !plan.shape.checksums.isEmpty { try plan.writeChecksums(of: frame.body, at: parts, into: &bytes) }
    }

    @inline(__always)
    func wireType(of frame: borrowing Frame) throws(FrameError) -> UInt32 {
        switch frame.kind {
        case .request:
            // The server would read it as another kind of frame, and its caller would wait in vain.
            if let role = roleName(ofRequest: frame.type) { throw misuse(of: frame.type, by: role) }
            return frame.type
        case .push:
            if let push = roles.push, !push.contains(frame.type) {
                throw misuse(of: frame.type, by: "not the type of a push (\(list(push)))")
            }
            return frame.type
        case .ping:
            if let type = frame.type != 0 ? frame.type : roles.ping { return type }
            // A client would treat the request that serves as a ping as an ordinary request.
            if let heartbeat = declared.heartbeat, !isServerSide || outbound.shape.kind?.lists(.ping) == true {
                return heartbeat.type
            }
        case .pong:
            if let type = frame.type != 0 ? frame.type : roles.pong ?? roles.ping ?? declared.heartbeat?.type {
                return type
            }
        case .cancel:
            if let type = frame.type != 0 ? frame.type : roles.cancel { return type }
            if outbound.shape.kind?.lists(.cancel) == true { return frame.type }
        case .response:
            // The client would read it as a part, and its caller would wait in vain.
            if isServerSide, !roles.hasMarks, let part = roles.part, part.contains(frame.type) {
                throw misuse(of: frame.type, by: "the type of a part")
            }
            return frame.type
        case .part:
            // A kind field marks parts in both directions. Bits and numbers mark parts of replies only.
            if outbound.shape.kind?.lists(.part) == true, !isServerSide || roles.part == nil { return frame.type }
            if let part = roles.part { return try typeOfPart(frame.type, part) }
            if isServerSide, declared.part != nil || declared.kind != nil { return frame.type }
            if declared.part != nil { throw FrameError(.unknownType, Self.marksOnlyReplies) }
        case .goAway:
            if outbound.shape.kind?.lists(.goAway) == true { return frame.type }
            if isServerSide, declared.goAway != nil || declared.kind != nil { return frame.type }
            if declared.goAway != nil {
                throw FrameError(.unknownType, "only the server sends goAway frames (the role closing is the client's)")
            }
        case .ignored: break
        }
        throw FrameError(.unknownType, "the layout has no role for \(frame.kind) frames")
    }

    private static var marksOnlyReplies: String {
        "the role part of this layout marks only parts of replies: parts of requests need a type or a kind field"
    }

    private func typeOfPart(_ type: UInt32, _ types: ClosedRange<UInt32>) throws(FrameError) -> UInt32 {
        let type = type == 0 ? types.lowerBound : type
        guard types.contains(type) else { throw misuse(of: type, by: "not the type of a part") }
        guard isServerSide || roles.isRequestPart(type) else {
            throw misuse(of: type, by: "also the type of a request or closing frame, so it marks only parts of replies")
        }
        return type
    }

    @inline(never)
    private func misuse(of type: UInt32, by role: String) -> FrameError {
        FrameError(.unknownType, "in this layout, type \(hexadecimal(type)) is \(role)")
    }

    func list(_ types: ClosedRange<UInt32>) -> String {
        let first = hexadecimal(types.lowerBound)
        return types.count == 1 ? "type \(first)" : "types \(first) to \(hexadecimal(types.upperBound))"
    }

    /// Throws for fields that would be silently lost.
    func checkFields(of frame: borrowing Frame) throws(FrameError) {
        if frame.isErrorResponse, outbound.shape.status == nil, declared.failure == nil {
            let lack = "neither a status field nor the role failure"
            throw FrameError(.malformed, "the layout has \(lack), so it has no error responses")
        }
        for field in frame.fields {
            guard let item = outbound.shape.named.first(where: { $0.name == field.name }) else {
                // Typed requests set the content type in every protocol, even if it has no field for it.
                if field.name == ContentType.fieldName { continue }
                throw FrameError(.malformed, "the layout has no field \"\(field.name)\"")
            }
            let mistake: String? =
                switch field.value {
                case .number: item.isBytes ? "holds bytes, not a number" : nil
                case .bytes where !item.isBytes: "holds a number, not bytes"
                case .bytes(let run) where run.count != item.slot.width:
                    "has \(item.slot.width) bytes, not \(run.count)"
                case .bytes, .marks: nil
                }
            if let mistake { throw FrameError(.malformed, "the field \"\(field.name)\" \(mistake)") }
        }
    }

    /// The role that the server would see in a request of this type, or `nil` if it is a request.
    @inline(__always)
    private func roleName(ofRequest type: UInt32) -> String? {
        if type == roles.ping { return "the ping" }
        if type == roles.pong { return "the pong" }
        if type == roles.cancel { return "the cancellation" }
        if roles.part != nil, roles.isRequestPart(type) {
            return "a part of a request (open), unless the role requests contains it"
        }
        // If responses are marked, requests may have the types of pushes.
        if roles.tellsPushes { return nil }
        if let push = roles.push, push.contains(type) { return "a push" }
        guard roles.hasMarks, let goAway = declared.goAway?.types, goAway.contains(UInt64(type)) else { return nil }
        // The type of a goAway from the server may be that of the client's closing frame.
        return type == roles.closing ? nil : "a goAway"
    }

    package var successStatus: UInt32 { outbound.shape.status == nil ? 0 : roles.success.lowerBound }

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
