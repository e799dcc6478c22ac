import TrunklineCore

/// Bodies of any bytes: the other side must decode exactly one frame, the same one.
extension ConformanceRun {
    mutating func checkBodies() {
        var done: Set<[UInt8]> = []
        for (index, sample) in kit.samples.enumerated() {
            guard case .frames(let frames) = sample.content, frames.count == 1, let frame = frames.first else {
                continue
            }
            let kind: [UInt8] = [frame.kind.rawValue, sample.receiver == .client ? 0 : 1]
            guard kit.hasServerSide, [.request, .response, .push].contains(frame.kind), done.insert(kind).inserted
            else { continue }
            guard let sender = sender(of: sample) else { continue }
            for body in bodies(like: frame.body) {
                var frame = frame
                frame.body = Bytes(body)
                checkBody(of: frame, sender, sample, "sample \(index + 1) with another body")
            }
        }
    }

    private mutating func bodies(like body: Bytes) -> [[UInt8]] {
        let half = Array(body.prefix(min(32, body.count / 2)))
        let special: [[UInt8]] = [[], [13, 10], [13, 10, 13, 10], [10, 10], [0, 0]]
        var bodies = special + special.map { half + $0 + half }
        for byte in UInt8.min...UInt8.max { bodies += [[byte], half + [byte] + half] }
        for _ in 0..<32 { bodies.append((0..<random.below(64)).map { _ in UInt8(random.below(256)) }) }
        return bodies
    }

    private mutating func checkBody(
        of frame: Frame,
        _ sender: LinkCodec,
        _ sample: CodecConformance.Sample,
        _ name: String
    ) {
        var sender = sender
        guard let bytes = try? bytes(of: [frame], by: &sender), bytes.count <= kit.maximumFrameSize else { return }
        let side = sample.receiver
        let link = feedChecked(
            [bytes[...]],
            to: side,
            sent: sample.answered,
            after: sample.preamble,
            keepsAll: true,
            as: name
        )
        guard link.fault == nil else { return }
        if link.frames.count > 1 || link.frames.count == 1 && (link.left > 0 || link.refusal != nil) {
            let rest = link.refusal.map { "\($0)" } ?? "\(link.left) undecoded bytes"
            return violate(
                .roundTrip,
                "the \(side) decoded \(name), which is one frame, as \(link.frames.count) frames and \(rest)",
                bytes
            )
        }
        guard kit.bodiesAreOpaque else { return }
        if let refusal = link.refusal {
            violate(.roundTrip, "encode accepted \(name), but the \(side) refused it: \(refusal)", bytes)
        } else if link.frames.first?.body != frame.body {
            let found = link.frames.first.map { "a body of \($0.body)" } ?? "no frame"
            violate(.roundTrip, "\(name), decoded by the \(side): \(found) instead of \(frame.body)", bytes)
        }
    }
}
