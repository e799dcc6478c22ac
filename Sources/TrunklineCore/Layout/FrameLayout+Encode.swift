extension FrameLayout {
    /// Appends `frame` to `output`. A ping, pong or cancel frame of type 0 gets the type of its role.
    ///
    /// Throws `illegalLength` for a body that is too long or too short; `unknownType` for a type that does not fit its
    /// field, that is another role's, or where a ping or cancel frame finds no role; and `malformed` for another number
    /// that does not fit its field, for a named field that the layout does not declare, and for a rejection where the
    /// layout has no status.
    public func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        let plan = outbound
        let type = try wireType(of: frame)
        if frame.isRejection || !frame.fields.isEmpty { try checkFields(of: frame, plan) }
        let bodySize = frame.body.count
        guard outboundLimits.bodySizes.contains(bodySize) else { throw outboundLimits.illegalBody(bodySize) }

        let start = output.gathered.count
        output.gathered.append(contentsOf: plan.header)
        if bodySize > 0 { output.append(frame.body) }
        // A large body is not between header and trailer: they are neighbours in `gathered`.
        let parts = LayoutPlan.Parts(header: start, trailer: output.gathered.count)
        if !plan.trailer.isEmpty { output.gathered.append(contentsOf: plan.trailer) }

        var span = output.gathered.mutableSpan
        var bytes = unsafe span.mutableBytes
        try plan.writeNumbers(of: frame, type: type, at: parts, into: &bytes)
        if !plan.checksums.isEmpty { try plan.writeChecksums(of: frame.body, at: parts, into: &bytes) }
    }

    @inline(__always)
    private func wireType(of frame: Frame) throws(FrameError) -> UInt32 {
        switch frame.kind {
        case .request:
            // The answer would be taken for something else, and the caller would wait in vain.
            if let role = roles.name(of: frame.type) { throw misuse(of: frame.type, by: role) }
            return frame.type
        case .push:
            if let push = roles.push, !push.contains(frame.type) { throw misuse(of: frame.type, by: "no push") }
            return frame.type
        case .ping:
            if let type = frame.type != 0 ? frame.type : roles.ping { return type }
        case .pong:
            if let type = frame.type != 0 ? frame.type : roles.pong ?? roles.ping { return type }
        case .cancel:
            if let type = frame.type != 0 ? frame.type : roles.cancel { return type }
        case .response, .part, .goAway:
            return frame.type
        }
        throw FrameError(.unknownType, "the layout has no type for a \(frame.kind) frame")
    }

    private func misuse(of type: UInt32, by role: String) -> FrameError {
        FrameError(.unknownType, "type 0x\(String(type, radix: 16)) is \(role) in this layout")
    }

    /// Refuses what would be lost without a word.
    private func checkFields(of frame: borrowing Frame, _ plan: LayoutPlan) throws(FrameError) {
        if frame.isRejection, plan.status == nil {
            throw FrameError(.malformed, "the layout has no status field, so it cannot say that a frame is a rejection")
        }
        for field in frame.fields where !plan.named.contains(where: { $0.name == field.name }) {
            throw FrameError(.malformed, "the layout has no field \"\(field.name)\"")
        }
    }
}

extension Roles {
    /// What a request of type `type` would be taken for, if anything.
    @inline(__always)
    func name(of type: UInt32) -> String? {
        if type == ping { return "the ping" }
        if type == pong { return "the pong" }
        if type == cancel { return "the cancellation" }
        if let push, push.contains(type) { return "a push" }
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
        let count = UInt64(truncatingIfNeeded: frame.body.count &+ lengthOfEmpty)
        length.store(count, into: &bytes, at: length.position(in: parts))
        for item in earlyRepetitions {
            let value = item.original.load(bytes.bytes, at: item.original.position(in: parts))
            item.slot.store(value, into: &bytes, at: item.slot.position(in: parts))
        }
        for item in lateRepetitions {
            let value = item.original.load(bytes.bytes, at: item.original.position(in: parts))
            item.slot.store(value, into: &bytes, at: item.slot.position(in: parts))
        }
        for item in named {
            let value = frame[item.name] ?? item.initial
            try write(value, in: item.slot, item.name, .malformed, parts, into: &bytes)
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
            let covered = item.scope == .body ? 0 : header.count
            let result = item.compute(
                bytes.bytes.extracting(parts.header..<parts.header + covered),
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
        FrameError(code, "the \(name) \(value) does not fit in \(width) bytes")
    }
}

// MARK: - For test servers

extension FrameLayout {
    /// The first status that is no rejection.
    package var successStatus: UInt32 { outbound.status == nil ? 0 : roles.success.lowerBound }

    /// The header of `frame` as it would be if its length were the largest that the field holds.
    package func headerWithAbsurdLength(of frame: Frame) throws(FrameError) -> [UInt8] {
        var output = SendBuffer()
        try encode(frame, into: &output)
        var header = Array(output.bytes.prefix(outbound.header.count))
        for index in 0..<outbound.length.width { header[outbound.length.offset + index] = 0xFF }
        return header
    }
}
