import TrunklineCore

/// Inputs that must be refused, and random inputs that must not break a rule.
extension ConformanceRun {
    mutating func checkRefusals() {
        for (index, sample) in kit.samples.enumerated() {
            guard case .refused(let bytes, let code) = sample.content else { continue }
            let name = "sample \(index + 1)"
            for pieces in [[bytes[...]], bytes.indices.map { bytes[$0...$0] }] {
                let link = feedChecked(
                    pieces,
                    to: sample.receiver,
                    sent: sample.answered,
                    after: sample.preamble,
                    as: name
                )
                guard link.fault == nil else { continue }
                let how = pieces.count > 1 ? " byte by byte" : ""
                if link.refusalCode == nil {
                    let outcome = "\(link.frames.count) frames, \(link.left) bytes left"
                    violate(.refusal, "the \(sample.receiver) did not refuse \(name)\(how): \(outcome)", bytes)
                } else if let code, let found = link.refusalCode, found != code {
                    let refusal = link.refusal.map { "\($0)" } ?? "\(found)"
                    violate(.refusal, "\(name)\(how) was refused with \(refusal), not with \(code)", bytes)
                }
            }
        }
    }

    mutating func checkGarbage() {
        for side in [Side.client, .server] {
            let streams = streams(to: side)
            guard !streams.isEmpty else { continue }
            checkEveryByte(streams, side, atMost: kit.corruptedInputs)
            for _ in 0..<kit.garbageInputs / 2 {
                let stream = streams[random.below(streams.count)]
                feedGarbage(corrupted(stream.bytes), stream, "\(stream.name), corrupted")
                let start = stream.bytes.prefix(random.below(stream.bytes.count + 1))
                let rest = (0..<random.below(48)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
                feedGarbage(start + rest, stream, "\(start.count) bytes of \(stream.name) and random ones")
            }
        }
    }

    /// In long samples, half of the inputs change the first bytes, the others random ones.
    private mutating func checkEveryByte(_ streams: [ConformanceStream], _ side: Side, atMost limit: Int) {
        let total = streams.reduce(0) { $0 + $1.bytes.count }
        let isAll = total <= limit / 255
        let share = isAll ? Int.max : max(1, limit / 2 / 255 / streams.count)
        for stream in streams {
            for offset in stream.bytes.indices.prefix(share) {
                for change in 1...UInt8.max { feed(stream, with: change, at: offset) }
            }
        }
        guard !isAll else { return }
        for number in 0..<limit / 2 {
            let stream = streams[number % streams.count]
            guard !stream.bytes.isEmpty else { continue }
            feed(stream, with: 1 + UInt8(random.below(255)), at: random.below(stream.bytes.count))
        }
    }

    private mutating func feed(_ stream: ConformanceStream, with change: UInt8, at offset: Int) {
        var bytes = stream.bytes
        bytes[offset] ^= change
        let what = "\(stream.name) with 0x\(twoDigits(bytes[offset])) as byte \(offset)"
        feedGarbage(bytes, stream, what)
    }

    private mutating func corrupted(_ bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        for _ in 0...random.below(3) {
            guard !bytes.isEmpty else { break }
            let offset = random.below(bytes.count)
            let end = min(bytes.count, offset + 1 + random.below(8))
            switch random.below(5) {
            case 0: bytes.removeSubrange(offset..<end)
            case 1: bytes.insert(contentsOf: bytes[offset..<end], at: offset)
            case 2: for index in offset..<end { bytes[index] = 0xFF }
            case 3: for index in offset..<end { bytes[index] = 0 }
            default: bytes[offset] = [0, 1, 10, 13, 0x7F, 0x80, 0xFE][random.below(7)]
            }
        }
        return bytes
    }

    /// Any result is valid, but it must be the same wherever the bytes are split.
    private mutating func feedGarbage(
        _ bytes: [UInt8],
        _ stream: ConformanceStream,
        _ what: @autoclosure () -> String
    ) {
        let (side, sent, preamble) = (stream.receiver, stream.sent, stream.preamble)
        let whole = feedChecked([bytes[...]], to: side, sent: sent, after: preamble, ends: true, as: what())
        guard whole.fault == nil, bytes.count > 1 else { return }
        let cut = 1 + random.below(bytes.count - 1)
        let split = feedChecked(
            [bytes[..<cut], bytes[cut...]],
            to: side,
            sent: sent,
            after: preamble,
            ends: true,
            as: what()
        )
        guard split.fault == nil else { return }
        if split.frames != whole.frames || (split.refusal == nil) != (whole.refusal == nil) {
            let (one, two) = (outcome(whole), outcome(split))
            violate(.split, "\(what()) gave \(one), but \(two) in pieces of \(cut) and \(bytes.count - cut)", bytes)
        }
    }

    private func outcome(_ link: ConformanceLink) -> String {
        "\(link.frames.count) frames" + (link.refusal.map { " and \($0)" } ?? "")
    }
}
