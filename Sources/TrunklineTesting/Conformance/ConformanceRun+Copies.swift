import TrunklineCore

/// Assumptions of the client: codecs are values, `encode` appends, and both directions are deterministic.
extension ConformanceRun {
    mutating func checkCopies() -> Bool {
        var isGood = true
        for side in [Side.client, .server] {
            let streams = streams(to: side)
            guard let longest = streams.max(by: { $0.bytes.count < $1.bytes.count }) else { continue }
            for stream in streams where !checkCopies(stream, beside: longest) { isGood = false }
        }
        return isGood
    }

    private mutating func checkCopies(_ stream: ConformanceStream, beside other: ConformanceStream) -> Bool {
        let side = stream.receiver
        let middle = stream.bytes.count / 2
        let halves = [stream.bytes[..<middle], stream.bytes[middle...]]
        let ends = stream.endsWithConnection
        let alone = feed(
            halves,
            to: side,
            sent: stream.sent,
            after: stream.preamble,
            ends: ends,
            as: "\(stream.name) in halves"
        )
        // A failure without a copy is reported by the check of splits.
        guard alone.frames == stream.frames, alone.refusal == nil else { return true }
        let cut = [other.bytes.dropLast(), other.bytes.suffix(1)]
        let otherAlone = feed(
            cut,
            to: side,
            sent: other.sent,
            after: other.preamble,
            ends: other.endsWithConnection,
            as: "\(other.name) cut"
        )
        guard otherAlone.frames == other.frames, otherAlone.refusal == nil else { return true }
        var first = feed(
            [stream.bytes[..<middle]],
            to: side,
            sent: stream.sent,
            after: stream.preamble,
            as: "half of \(stream.name)"
        )
        let copy = first
        var second = feed(
            [other.bytes.dropLast()],
            to: side,
            sent: other.sent,
            after: other.preamble,
            as: "\(other.name), cut short"
        )
        announce("the rest of \(stream.name) and of \(other.name)", halves, to: side)
        first.receive(stream.bytes[middle...])
        second.receive(other.bytes.suffix(1))
        var third = copy
        third.receive(stream.bytes[middle...])
        if ends {
            first.end()
            third.end()
        }
        if other.endsWithConnection { second.end() }
        for (link, stream) in [(first, stream), (second, other), (third, stream)] {
            if link.frames == stream.frames, link.refusal == nil, link.fault == nil { continue }
            let outcome = link.refusal.map { "threw \($0)" } ?? "gave different frames"
            violate(
                .copies,
                "decode of \(stream.name) \(outcome) while a copy of the codec decoded \(other.name): copies share state",
                stream.bytes
            )
            return false
        }
        return true
    }

    mutating func checkEncoding() {
        for (index, sample) in kit.samples.enumerated() {
            guard case .frames(let frames) = sample.content else { continue }
            guard sample.receiver == .server || kit.hasServerSide else { continue }
            checkEncoding(of: frames, sample, "sample \(index + 1)")
        }
    }

    private mutating func checkEncoding(of frames: [Frame], _ sample: CodecConformance.Sample, _ name: String) {
        guard let before = sender(of: sample) else { return }
        var (first, second) = (before, before)
        guard let alone = try? bytes(of: frames, by: &first) else { return }
        if alone != (try? bytes(of: frames, by: &second)) {
            violate(.determinism, "encoding \(name) twice gave different bytes", alone)
        }
        // A long run is held by reference, so that what follows begins a new run.
        for prefix in [[0xA5], [UInt8](repeating: 0xA5, count: 5000)] {
            var codec = before
            var output = SendBuffer()
            output.append(Bytes(prefix))
            for frame in frames {
                _ = try? codec.encode(frame, into: &output)
                codec.noteSent(frame)
            }
            if output.bytes != prefix + alone {
                violate(
                    .append,
                    "encoding \(name) after \(prefix.count) other bytes gave different bytes",
                    output.bytes.dropFirst(prefix.count)
                )
            }
        }
    }
}
