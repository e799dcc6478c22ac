import TrunklineCore

extension ConformanceRun {
    mutating func checkLimits() {
        var grown: Set<Side> = []
        for (index, sample) in kit.samples.enumerated() {
            guard case .frames(let frames) = sample.content, frames.count == 1, let frame = frames.first else {
                continue
            }
            guard [.request, .response, .push].contains(frame.kind), sample.receiver == .server || kit.hasServerSide
            else { continue }
            if checkLimit(of: frame, sample, "sample \(index + 1)") { grown.insert(sample.receiver) }
        }
        for side in [Side.client, .server] where !grown.contains(side) && !streams(to: side).isEmpty {
            skip(
                "whether the \(side) refuses frames that are too large, because no one-frame sample has a body that can grow"
            )
        }
        checkWaiting()
    }

    /// Returns false if the limit cannot be checked, because the frame's body cannot be any bytes.
    private mutating func checkLimit(of frame: Frame, _ sample: CodecConformance.Sample, _ name: String) -> Bool {
        guard let sender = sender(of: sample), let overhead = overhead(of: frame, sample, sender) else { return false }
        let limit = kit.maximumFrameSize
        if let bytes = encode(frame, bodySize: limit + 1 - overhead, by: sender), bytes.count > limit {
            violate(
                .limit,
                "encode accepted \(name) with \(bytes.count) bytes; a frame has at most \(limit) bytes",
                bytes
            )
        }
        // A length of variable width makes the header grow.
        var largest: [UInt8]?
        for slack in 0...16 where largest == nil {
            largest = encode(frame, bodySize: limit - overhead - slack, by: sender)
        }
        let header = largest.flatMap { checkLargest($0, frame, sample, name) }
        guard let relaxed = kit.relaxed else {
            if !refusesLength(sample.receiver) { skip(Self.howToCheckLengths(sample.receiver, limit)) }
            return true
        }
        guard sample.preamble.isEmpty else {
            skip("whether the \(sample.receiver) refuses frames that are too large after a preamble")
            return true
        }
        let other = LinkCodec(sample.receiver == .client ? ProtocolCodec(relaxed).serverSide() : relaxed)
        if let bytes = encode(frame, bodySize: limit + 1 - overhead, by: other), bytes.count > limit {
            checkRefusal(of: bytes, header, sample, name)
        }
        return true
    }

    private func refusesLength(_ side: Side) -> Bool {
        kit.samples.contains { sample in
            guard case .refused(_, .illegalLength?) = sample.content else { return false }
            return sample.receiver == side
        }
    }

    private static func howToCheckLengths(_ side: Side, _ limit: Int) -> String {
        let sample = ".refused(bytes, with: .illegalLength, receivedBy: .\(side))"
        return
            "whether the \(side) refuses a length above the limit before the body arrives: set `relaxed` to the same "
            + "codec with a limit of at least \(limit <= .max / 2 ? 2 * limit : limit) bytes, or add the sample \(sample) "
            + "where `bytes` is a header that announces more than \(limit) bytes"
    }

    /// The size without body, if the body can be any bytes of length one or of the sample's own length.
    private func overhead(of frame: Frame, _ sample: CodecConformance.Sample, _ sender: LinkCodec) -> Int? {
        for size in [1, frame.body.count] where size > 0 {
            guard let one = encode(frame, bodySize: size, by: sender),
                let two = encode(frame, bodySize: size + 1, by: sender),
                two.count == one.count + 1, one.count <= kit.maximumFrameSize
            else { continue }
            return one.count - size
        }
        return nil
    }

    private func encode(_ frame: Frame, bodySize: Int, by sender: LinkCodec) -> [UInt8]? {
        guard bodySize >= 0 else { return nil }
        var (frame, sender) = (frame, sender)
        frame.body = Bytes([UInt8](repeating: UInt8(ascii: "x"), count: bodySize))
        return try? bytes(of: [frame], by: &sender)
    }

    /// Returns the size of the header after which the length is known, if the codec announces it.
    private mutating func checkLargest(
        _ bytes: [UInt8],
        _ frame: Frame,
        _ sample: CodecConformance.Sample,
        _ name: String
    ) -> Int? {
        let side = sample.receiver
        guard kit.hasServerSide else { return nil }
        let what = "\(name) with \(bytes.count) bytes"
        let link = feedChecked(
            [bytes[...]],
            to: side,
            sent: sample.answered,
            after: sample.preamble,
            keepsAll: true,
            as: what
        )
        guard link.fault == nil else { return nil }
        if let refusal = link.refusal {
            violate(.limit, "encode accepted \(what), but decode threw \(refusal)", bytes)
        } else if link.frames.count != 1 || link.left > 0 {
            violate(
                .limit,
                "\(what), decoded by the \(side), gave \(link.frames.count) frames and \(link.left) undecoded bytes",
                bytes
            )
        }
        announce("\(what) byte by byte", [bytes[...]], to: side)
        var growing = ConformanceLink(
            codec(of: side, after: sample.preamble),
            limit: kit.maximumFrameSize,
            sent: sample.answered
        )
        for position in bytes.indices.prefix(256) {
            growing.receive(bytes[position...position])
            if growing.awaited >= bytes.count { return position + 1 }
        }
        return nil
    }

    /// A frame above the limit must be refused after its header if there is one, otherwise at the limit.
    private mutating func checkRefusal(
        of bytes: [UInt8],
        _ header: Int?,
        _ sample: CodecConformance.Sample,
        _ name: String
    ) {
        let count = min(bytes.count, header.map { $0 + 8 } ?? bytes.count)
        let what = "the first \(count) of \(bytes.count) bytes of \(name), made too large"
        let link = feedChecked(
            [bytes[..<count]],
            to: sample.receiver,
            sent: sample.answered,
            after: sample.preamble,
            as: what
        )
        // A codec that can resume after the frame may report it with the frame instead.
        if link.refusalCode == nil, link.fault == nil {
            let limit = kit.maximumFrameSize
            violate(
                .limit,
                "the \(sample.receiver) did not refuse \(what); a frame has at most \(limit) bytes",
                bytes[..<count]
            )
        }
    }

    /// When more than one frame's worth has arrived, the codec must have found frames or refused.
    private mutating func checkWaiting() {
        let size = kit.maximumFrameSize + 1
        var budget = max(size, 8 << 20)
        for side in [Side.client, .server] {
            guard side == .client || kit.hasServerSide, !kit.samples.isEmpty else { continue }
            for byte in [UInt8(ascii: "a"), 0, 0xFF] {
                let bytes = [UInt8](repeating: byte, count: size)
                _ = feedChecked([bytes[...]], to: side, as: "\(size) times the byte 0x\(twoDigits(byte))")
            }
            for stream in streams(to: side) {
                for offset in 0..<min(16, stream.bytes.count) {
                    for width in [1, 2, 4, 8] where offset + width <= stream.bytes.count && budget > 0 {
                        budget -= size
                        var bytes = stream.bytes
                        for index in offset..<offset + width { bytes[index] = 0xFF }
                        let filler = [UInt8](repeating: UInt8(ascii: "a"), count: size)
                        let what = "\(stream.name), 0xff in \(width) bytes from \(offset), and \(size) bytes after it"
                        _ = feedChecked(
                            [bytes[...], filler[...]],
                            to: side,
                            sent: stream.sent,
                            after: stream.preamble,
                            as: what
                        )
                    }
                }
            }
        }
    }
}
