import TrunklineCore

extension ConformanceRun {
    /// Longer samples are split at both ends and in as many places between.
    private static let everySplit = 256
    private static let everyThird = 32

    mutating func checkSplits() {
        for stream in streams {
            for position in positions(in: stream.bytes.count) { checkPrefix(position, of: stream) }
            let count = stream.bytes.count
            if count <= 4 * Self.everySplit {
                let bytes = stream.bytes.indices.map { stream.bytes[$0...$0] }
                check(bytes, of: stream, "byte by byte")
            }
            guard count <= Self.everyThird else { continue }
            for first in 1..<max(2, count) {
                for second in first + 1..<max(first + 1, count) {
                    let pieces = [stream.bytes[..<first], stream.bytes[first..<second], stream.bytes[second...]]
                    check(pieces, of: stream, "in pieces of \(first), \(second - first) and \(count - second) bytes")
                }
            }
        }
    }

    private mutating func positions(in count: Int) -> [Int] {
        guard count > Self.everySplit else { return Array(1..<max(1, count)) }
        let edge = Self.everySplit / 4
        let between = (0..<2 * edge).map { _ in edge + random.below(count - 2 * edge) }
        return Array(1...edge) + between.sorted() + Array(count - edge..<count)
    }

    /// The first `count` bytes must give the frames that are complete in them, and the rest the others.
    private mutating func checkPrefix(_ count: Int, of stream: ConformanceStream) {
        let what = "the first \(count) of \(stream.bytes.count) bytes of \(stream.name)"
        let prefix = stream.bytes[..<count]
        var link = feedChecked([prefix], to: stream.receiver, sent: stream.sent, after: stream.preamble, as: what)
        guard link.fault == nil else { return }
        let expected = stream.frames(within: count)
        if let refusal = link.refusal {
            violate(.truncation, "decode of \(what) threw \(refusal) instead of waiting for the rest", prefix)
        } else if link.frames.count > expected.count {
            violate(
                .truncation,
                "decode of \(what) gave \(link.frames.count) frames instead of \(expected.count)",
                prefix
            )
        } else if link.frames != Array(expected) {
            violate(.split, "decode of \(what) gave different frames from decode of all bytes at once", prefix)
        } else {
            if !stream.endsWithConnection, stream.ends.allSatisfy({ $0 != count }) {
                var cut = link
                cut.end()
                if cut.frames.count > expected.count {
                    violate(.truncation, "\(what) became a frame when the connection ended", prefix)
                }
            }
            announce("the rest of \(stream.name)", [prefix, stream.bytes[count...]], to: stream.receiver)
            link.receive(stream.bytes[count...])
            judge(&link, stream, "in pieces of \(count) and \(stream.bytes.count - count) bytes")
        }
    }

    private mutating func check(_ pieces: [ArraySlice<UInt8>], of stream: ConformanceStream, _ how: String) {
        var link = feed(
            pieces,
            to: stream.receiver,
            sent: stream.sent,
            after: stream.preamble,
            as: "\(stream.name) \(how)"
        )
        judge(&link, stream, how)
    }

    private mutating func judge(_ link: inout ConformanceLink, _ stream: ConformanceStream, _ how: String) {
        if stream.endsWithConnection { link.end() }
        if let fault = link.fault {
            return violate(fault.rule, "\(stream.name) \(how): \(fault.message)", stream.bytes)
        }
        if let refusal = link.refusal {
            return violate(.split, "decode of \(stream.name) \(how) threw \(refusal)", stream.bytes)
        }
        if link.frames != stream.frames {
            let frames = "\(link.frames.count) frames: \(link.frames.map(\.description).joined(separator: ", "))"
            violate(
                .split,
                "decode of \(stream.name) \(how) gave different frames from decode of all bytes at once: \(frames)",
                stream.bytes
            )
        } else if link.left > 0 {
            violate(.split, "\(link.left) undecoded bytes are left after \(stream.name) \(how)", stream.bytes)
        }
    }

    mutating func checkMerges() {
        for side in [Side.client, .server] {
            // A frame of a preamble may switch the mode, so that none of its kind can follow it.
            let all = streams(to: side).filter { $0.canBeFollowed && !isPreamble($0) }
            for (index, stream) in all.enumerated()
            where !all[..<index].contains(where: { $0.preamble == stream.preamble }) {
                checkMerges(all.filter { $0.preamble == stream.preamble }, side)
            }
        }
    }

    private func isPreamble(_ stream: ConformanceStream) -> Bool {
        kit.samples.contains { sample in
            sample.preamble.contains { step in
                switch step {
                case .sent(let frame), .received(let frame): stream.frames.contains(frame)
                case .receivedBytes(let bytes): stream.bytes == bytes
                }
            }
        }
    }

    private mutating func checkMerges(_ streams: [ConformanceStream], _ side: Side) {
        // In one buffer: each sample twice, all samples, and all samples followed by an incomplete one.
        for stream in streams { checkMerge([stream, stream], side) }
        if streams.count > 1 {
            checkMerge(streams, side)
            checkMerge(streams.reversed(), side)
        }
        for stream in streams.prefix(8) {
            for cut in Set([1, stream.bytes.count / 2, stream.bytes.count - 1]).sorted() where cut > 0 {
                checkMerge(streams, side, behind: stream, cut: cut)
            }
        }
    }

    private mutating func checkMerge(
        _ streams: [ConformanceStream],
        _ side: Side,
        behind tail: ConformanceStream? = nil,
        cut: Int = 0
    ) {
        let part = tail.map { $0.bytes.prefix(cut) } ?? []
        let bytes = streams.flatMap(\.bytes) + part
        var what = streams.map(\.name).joined(separator: " and ") + " in one buffer"
        if let tail { what += " with \(part.count) of \(tail.bytes.count) bytes of \(tail.name) after it" }
        let sent = streams.flatMap(\.sent) + (tail?.sent ?? [])
        let preamble = (streams.first ?? tail)?.preamble ?? []
        let link = feedChecked([bytes[...]], to: side, sent: sent, after: preamble, as: what)
        guard link.fault == nil else { return }
        if let refusal = link.refusal {
            return violate(.merge, "decode of \(what) threw \(refusal) after \(link.frames.count) frames", bytes)
        }
        var start = 0
        var ends: [Int] = []
        for stream in streams {
            ends += stream.ends.map { $0 + start }
            start += stream.bytes.count
        }
        if let tail { ends += tail.ends.filter { $0 <= cut }.map { $0 + start } }
        let expected = streams.flatMap(\.frames) + (tail.map { Array($0.frames(within: cut)) } ?? [])
        if link.frames != expected {
            violate(
                .merge,
                "decode of \(what) gave \(link.frames.count) frames, not the \(expected.count) expected",
                bytes
            )
        } else if link.ends != ends {
            violate(
                .merge,
                "decode of \(what) split frames at \(link.ends) instead of \(ends)",
                bytes
            )
        }
    }
}
