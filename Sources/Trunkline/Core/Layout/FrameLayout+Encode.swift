extension FrameLayout {
    /// Appends `frame` to `output`. A ping, pong or cancel frame of type 0 gets the type of its role.
    ///
    /// Throws `illegalLength` for a body that is too long or too short; `unknownType` for a type that does not fit its
    /// field, that is another role's, or where a ping, cancel, part or goAway frame finds no role; and `malformed` for another number
    /// that does not fit its field, for a named field that the layout does not declare or that has another size, and
    /// for an error response where the layout has no way to say so.
    public func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        if let marks {
            let frame = try marked(frame, marks)
            try write(frame, type: frame.type, into: &output)
        } else {
            try write(frame, type: wireType(of: frame), into: &output)
        }
    }

    @inline(__always)
    private func write(_ frame: borrowing Frame, type: UInt32, into output: inout SendBuffer) throws(FrameError) {
        let plan = outbound
        if frame.isErrorResponse || !frame.fields.isEmpty { try checkFields(of: frame, plan) }
        let bodySize = frame.body.count
        guard outboundLimits.bodySizes.contains(bodySize) else { throw outboundLimits.illegalBody(bodySize) }

        if plan.isPlain, let serial = UInt32(exactly: frame.serial) {
            let length = UInt32(truncatingIfNeeded: bodySize &+ plan.lengthOfEmpty)
            output.append(integers: type, serial, length)
            return bodySize > 0 ? output.append(frame.body) : ()
        }
        let start = output.gathered.count
        var extra = 0
        if let varint = plan.varint {
            extra = try plan.appendVariableHeader(bodySize: bodySize, varint, outboundLimits, to: &output.gathered)
        } else {
            output.gathered.append(contentsOf: plan.header)
        }
        let bodyStart = output.gathered.count
        if bodySize > 0 { output.append(frame.body) }
        // A large body is not between header and trailer: they are neighbours in `gathered`.
        let parts = LayoutPlan.Parts(header: start, extra: extra, body: bodyStart, trailer: output.gathered.count)
        if !plan.trailer.isEmpty { output.gathered.append(contentsOf: plan.trailer) }

        var span = output.gathered.mutableSpan
        var bytes = unsafe span.mutableBytes
        try plan.writeNumbers(of: frame, type: type, at: parts, into: &bytes)
        if !plan.checksums.isEmpty { try plan.writeChecksums(of: frame.body, at: parts, into: &bytes) }
    }

    @inline(__always)
    func wireType(of frame: borrowing Frame) throws(FrameError) -> UInt32 {
        switch frame.kind {
        case .request:
            // The answer would be taken for something else, and the caller would wait in vain.
            if let role = roles.name(of: frame.type, marks) { throw misuse(of: frame.type, by: role) }
            return frame.type
        case .push:
            if let push = roles.push, !push.contains(frame.type) { throw misuse(of: frame.type, amongst: push) }
            return frame.type
        case .ping:
            if let type = frame.type != 0 ? frame.type : roles.ping { return type }
            // Of a server, clients would take the request that serves as a ping for a request.
            if let marks, let heartbeat = marks.heartbeat, !isServerSide || outbound.kind?.lists(.ping) == true {
                return heartbeat.type
            }
        case .pong:
            if let type = frame.type != 0 ? frame.type : roles.pong ?? roles.ping ?? marks?.heartbeat?.type {
                return type
            }
        case .cancel:
            if let type = frame.type != 0 ? frame.type : roles.cancel { return type }
        case .response:
            // Taken for a part, it would leave its caller waiting.
            if isServerSide, marks == nil, let part = roles.part, part.contains(frame.type) {
                throw misuse(of: frame.type, by: "that of a part")
            }
            return frame.type
        case .part:
            if marks == nil, let part = roles.part {
                if part.contains(frame.type) { return frame.type }
                if frame.type == 0 { return part.lowerBound }
                throw misuse(of: frame.type, by: "not that of a part")
            }
            // A mark is one of responses only.
            if !isServerSide, outbound.kind == nil { break }
            if let marks, marks.part != nil || marks.kind != nil { return frame.type }
            if outbound.kind?.lists(.part) == true { return frame.type }
        case .goAway:
            if let marks, marks.goAway != nil || marks.kind != nil { return frame.type }
            if outbound.kind?.lists(.goAway) == true { return frame.type }
        }
        throw FrameError(.unknownType, "the layout cannot say that a frame is a \(frame.kind): it has no such role")
    }

    @inline(never)
    private func misuse(of type: UInt32, by role: String) -> FrameError {
        FrameError(.unknownType, "in this layout, type \(hexadecimal(type)) is \(role)")
    }

    @inline(never)
    private func misuse(of type: UInt32, amongst pushes: ClosedRange<UInt32>) -> FrameError {
        misuse(of: type, by: "no push: these have \(list(pushes))")
    }

    /// The types that a role has, in words.
    func list(_ types: ClosedRange<UInt32>) -> String {
        let first = hexadecimal(types.lowerBound)
        return types.count == 1 ? "type \(first)" : "types \(first) to \(hexadecimal(types.upperBound))"
    }

    /// Refuses what would be lost without a word.
    func checkFields(of frame: borrowing Frame, _ plan: LayoutPlan) throws(FrameError) {
        if frame.isErrorResponse, plan.status == nil, marks?.failure == nil {
            throw FrameError(
                .malformed,
                "the layout has no status and no role failure to say that a frame is an error response"
            )
        }
        for field in frame.fields {
            guard let item = plan.named.first(where: { $0.name == field.name }) else {
                // What typed requests say of their body in every protocol, whether or not it has a place for it.
                if field.name == ContentType.fieldName { continue }
                throw FrameError(.malformed, "the layout has no field \"\(field.name)\"")
            }
            switch field.value {
            case .number where item.isBytes:
                throw FrameError(.malformed, "the field \"\(field.name)\" holds bytes, not a number")
            case .bytes where !item.isBytes:
                throw FrameError(.malformed, "the field \"\(field.name)\" holds a number, not bytes")
            case .bytes(let bytes) where bytes.count != item.slot.width:
                let message = "the field \"\(field.name)\" has \(item.slot.width) bytes, not \(bytes.count)"
                throw FrameError(.malformed, message)
            case .number, .bytes:
                break
            }
        }
    }
}

extension Roles {
    /// What a request of type `type` would be taken for, if anything.
    @inline(__always)
    func name(of type: UInt32, _ marks: RoleMarks?) -> String? {
        if type == ping { return "the ping" }
        if type == pong { return "the pong" }
        if type == cancel { return "the cancellation" }
        // Where a response is known to be one, requests may have the types of pushes.
        if let marks, marks.tellsPushes { return nil }
        if let push, push.contains(type) { return "a push" }
        // What is a goAway from the server may be our own farewell.
        if let goAway = marks?.goAway?.types, goAway.contains(UInt64(type)), type != closing { return "a goAway" }
        return nil
    }
}

extension LayoutPlan {
    /// Writes every number that `frame` holds into the header and trailer in `bytes`.
    @inline(__always)
    func writeNumbers(
        of frame: borrowing Frame,
        type number: UInt32,
        at parts: Parts,
        into bytes: inout MutableRawSpan
    ) throws(FrameError) {
        if let type {
            try write(UInt64(number), in: type, "type", .unknownType, parts, into: &bytes)
        }
        if let serial {
            try write(frame.serial, in: serial, "serial", .malformed, parts, into: &bytes)
        }
        if let status {
            try write(UInt64(frame.status), in: status, "status", .malformed, parts, into: &bytes)
        }
        if varint == nil {
            let count = UInt64(truncatingIfNeeded: frame.body.count &+ lengthOfEmpty)
            length.store(count, into: &bytes, at: length.position(in: parts))
        }
        if let kind, let number = kind.number(of: frame.kind) {
            kind.slot.store(number, into: &bytes, at: kind.slot.position(in: parts))
        }
        for item in earlyRepetitions {
            let value = item.original.load(bytes.bytes, at: item.original.position(in: parts))
            item.slot.store(value, into: &bytes, at: item.slot.position(in: parts))
        }
        for item in lateRepetitions {
            let value = item.original.load(bytes.bytes, at: item.original.position(in: parts))
            item.slot.store(value, into: &bytes, at: item.slot.position(in: parts))
        }
        for item in named {
            if item.isBytes {
                guard let run = frame[bytes: item.name] else { continue }
                let position = item.slot.position(in: parts)
                for (index, byte) in run.enumerated() {
                    bytes.storeBytes(of: byte, toByteOffset: position + index, as: UInt8.self)
                }
            } else {
                let value = frame[item.name] ?? item.initial
                try write(value, in: item.slot, item.name, .malformed, parts, into: &bytes)
            }
        }
    }

    @inline(__always)
    private func write(
        _ value: UInt64,
        in slot: Slot,
        _ name: String,
        _ code: FrameError.Code,
        _ parts: Parts,
        into bytes: inout MutableRawSpan
    ) throws(FrameError) {
        guard value <= slot.maximum else {
            throw slot.misfit(code, name, value)
        }
        slot.store(value, into: &bytes, at: slot.position(in: parts))
    }

    /// Computes the checksums; to be called last, as they may cover the header.
    @inline(never)
    func writeChecksums(of body: Bytes, at parts: Parts, into bytes: inout MutableRawSpan) throws(FrameError) {
        for item in checksums {
            let result = item.compute(
                bytes.bytes.extracting(parts.header..<(item.scope == .body ? parts.header : parts.body)),
                unsafe body.storage.span.bytes.extracting(body.start..<body.start + body.count)
            )
            guard let result else {
                throw FrameError(.malformed, "the checksum \(item.checksum) gave no \(item.slot.width) bytes")
            }
            item.store(result, into: &bytes, at: item.slot.position(in: parts))
        }
    }
}

extension LayoutPlan.Slot {
    @inline(never)
    fileprivate func misfit(_ code: FrameError.Code, _ name: String, _ value: UInt64) -> FrameError {
        FrameError(code, "\(name) \(value) does not fit in \(width == 1 ? "1 byte" : "\(width) bytes")")
    }
}

// MARK: - For test servers

extension FrameLayout {
    /// The first status that is not an error response.
    package var successStatus: UInt32 { outbound.status == nil ? 0 : roles.success.lowerBound }

    /// The header of `frame` as it would be if its length were the largest that the field holds.
    package func headerWithAbsurdLength(of frame: Frame) throws(FrameError) -> [UInt8] {
        var output = SendBuffer()
        try encode(frame, into: &output)
        if outbound.varint != nil {
            return output.bytes.prefix(outbound.length.offset) + [UInt8](repeating: 0xFF, count: 9) + [0x7F]
        }
        var header = Array(output.bytes.prefix(outbound.header.count))
        for index in 0..<outbound.length.width { header[outbound.length.offset + index] = 0xFF }
        return header
    }
}
