import TrunklineCore

/// Round trips, and the streams of bytes with which all other checks begin.
extension ConformanceRun {
    mutating func prepare() {
        for (index, sample) in kit.samples.enumerated() {
            let name = "sample \(index + 1)"
            for (position, request) in sample.answered.enumerated() {
                prepare(.init(request).after(sample.preamble), named: "\(name), request \(position + 1)")
            }
            prepare(sample, named: name)
        }
    }

    private mutating func prepare(_ sample: CodecConformance.Sample, named name: String) {
        switch sample.content {
        case .refused: return
        case .bytes(let bytes, let frames): decode(bytes, sample, expecting: frames, .vector, name)
        case .frames(let frames):
            guard sample.receiver == .server || kit.hasServerSide else {
                return skip("frames that the server sends, because the codec has no server side; pass them as bytes")
            }
            var bytes: [UInt8] = []
            do throws(FrameError) {
                guard var sender = sender(of: sample) else { return }
                bytes = try self.bytes(of: frames, by: &sender)
            } catch {
                return violate(.roundTrip, "encode of \(name) threw \(error)")
            }
            if let vector = sample.vector, vector != bytes {
                let wanted = vector.map(twoDigits).joined(separator: " ")
                violate(.vector, "\(name) was encoded as other bytes; expected \(wanted)", bytes)
            }
            guard sample.receiver == .client || kit.hasServerSide else { return }
            decode(bytes, sample, expecting: frames, .roundTrip, name)
        }
    }

    private mutating func decode(
        _ bytes: [UInt8],
        _ sample: CodecConformance.Sample,
        expecting frames: [Frame]?,
        _ rule: Rule,
        _ name: String
    ) {
        let side = sample.receiver
        let ends = sample.endsWithConnection
        let link = feedChecked(
            [bytes[...]],
            to: side,
            sent: sample.answered,
            after: sample.preamble,
            ends: ends,
            as: name
        )
        if let refusal = link.refusal {
            return violate(rule, "the \(side) refused \(name) after \(link.frames.count) frames: \(refusal)", bytes)
        }
        guard link.fault == nil else { return }
        let expected = frames?.filter { !kit.isIgnored($0) }
        if let expected, let difference = difference(of: link.frames, from: expected, received: side) {
            return violate(rule, "\(name), decoded by the \(side): \(difference)", bytes)
        }
        guard link.left == 0 else {
            return violate(rule, "\(link.left) undecoded bytes are left after \(name), decoded by the \(side)", bytes)
        }
        let again = feed(
            [bytes[...]],
            to: side,
            sent: sample.answered,
            after: sample.preamble,
            ends: ends,
            as: "\(name) again"
        )
        if again.frames != link.frames || again.refusal != nil {
            return violate(.determinism, "decoding \(name) twice gave different frames", bytes)
        }
        streams.append(
            ConformanceStream(
                name: name,
                receiver: side,
                sent: sample.answered,
                preamble: sample.preamble,
                bytes: bytes,
                frames: link.frames,
                ends: link.ends,
                endsWithConnection: ends,
                isAlone: sample.isAlone
            )
        )
    }

    func difference(of decoded: [Frame], from expected: [Frame], received side: Side) -> String? {
        guard decoded.count == expected.count else {
            return "\(decoded.count) frames instead of \(expected.count)"
        }
        for (index, (frame, wanted)) in zip(decoded, expected).enumerated() {
            if let difference = difference(of: frame, from: wanted, received: side) {
                return (decoded.count > 1 ? "frame \(index + 1): " : "") + difference
            }
        }
        return nil
    }

    private func difference(of frame: Frame, from wanted: Frame, received side: Side) -> String? {
        let pongMayBePing = wanted.kind == .pong && frame.kind == .ping && rules(of: side).pongsLookLikePings
        if frame.kind != wanted.kind, !pongMayBePing { return "kind \(frame.kind) instead of \(wanted.kind)" }
        // A layout gives pings, pongs and cancellations the type of their role.
        let mayGetType = wanted.type == 0 && [.ping, .pong, .cancel].contains(wanted.kind)
        if frame.type != wanted.type, !mayGetType { return "type \(frame.type) instead of \(wanted.type)" }
        if kit.transmitsSerials || side == .client, frame.serial != wanted.serial {
            return "serial \(frame.serial) instead of \(wanted.serial)"
        }
        if frame.status != wanted.status { return "status \(frame.status) instead of \(wanted.status)" }
        if frame.isErrorResponse != wanted.isErrorResponse { return "isErrorResponse is \(frame.isErrorResponse)" }
        if frame.malformedReason != wanted.malformedReason {
            return "malformedReason is \(frame.malformedReason.map { "\($0)" } ?? "nil")"
        }
        if let ending = wanted.linkEnding, frame.linkEnding != ending {
            return "linkEnding is \(frame.linkEnding.map { "\($0)" } ?? "nil") instead of \(ending)"
        }
        if wanted.answers != .one, frame.answers != wanted.answers || frame.answeredTypes != wanted.answeredTypes {
            return "answers is \(frame.answers) instead of \(wanted.answers)"
        }
        if let reason = wanted.reason, frame.reason != reason {
            return "reason is \(frame.reason.map { "\($0)" } ?? "nil") instead of \(reason)"
        }
        if wanted.isFateUnknown != frame.isFateUnknown { return "isFateUnknown is \(frame.isFateUnknown)" }
        if wanted.cancelledSerial != frame.cancelledSerial {
            return "cancelledSerial is \(frame.cancelledSerial.map { "\($0)" } ?? "nil")"
        }
        if frame.body != wanted.body { return "a body of \(frame.body) instead of \(wanted.body)" }
        for name in wanted.fieldNames where frame[name] != wanted[name] || frame[bytes: name] != wanted[bytes: name] {
            func value(_ frame: Frame) -> String {
                frame[name].map { "\($0)" } ?? frame[bytes: name].map { "\($0)" } ?? "nothing"
            }
            return "\"\(name)\" is \(value(frame)) instead of \(value(wanted))"
        }
        return nil
    }
}
