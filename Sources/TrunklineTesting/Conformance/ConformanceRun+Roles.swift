import TrunklineCore

extension ConformanceRun {
    mutating func checkSerials() {
        for stream in streams(to: .client) { checkAnswer(stream) }
        guard case .serial(let range) = kit.client.matching, kit.hasServerSide, kit.transmitsSerials else { return }
        guard let (request, preamble) = request else {
            return skip("whether every serial is sent, because no sample is a request")
        }
        let middle = range.lowerBound + (range.upperBound - range.lowerBound) / 2
        for serial in [range.lowerBound, middle, range.upperBound] {
            var frame = request
            frame.serial = serial
            let what = "a request with serial \(serial)"
            guard let (received, bytes) = roundTrip([frame], to: .server, after: preamble, .matching, what) else {
                continue
            }
            if received.first?.serial != serial {
                let found = received.first.map { "\($0.serial)" } ?? "nothing"
                violate(.matching, "a request has serial \(serial), but the server decoded \(found)", bytes)
            }
        }
    }

    private var request: (Frame, [CodecConformance.Preamble])? {
        for sample in kit.samples {
            if case .frames(let frames) = sample.content, let frame = frames.first(where: { $0.kind == .request }) {
                return (frame, sample.preamble)
            }
        }
        for sample in kit.samples { if let frame = sample.answered.first { return (frame, sample.preamble) } }
        return nil
    }

    private mutating func checkAnswer(_ stream: ConformanceStream) {
        for frame in stream.frames where frame.kind == .response || frame.kind == .part {
            checkRepetition(frame, stream)
            switch kit.client.matching {
            case .inOrder, .inOrderByChannel:
                checkChannel(frame, stream)
                guard frame.serial != 0 else { continue }
                violate(
                    .matching,
                    "\(stream.name) has serial \(frame.serial), but the codec matches responses in order",
                    stream.bytes
                )
            case .serial(let range):
                if !range.contains(frame.serial) {
                    let message = "\(stream.name) has serial \(frame.serial), outside \(range)"
                    violate(.matching, message, stream.bytes)
                } else if !stream.sent.isEmpty, !stream.sent.contains(where: { $0.serial == frame.serial }) {
                    let asked = stream.sent.map { "\($0.serial)" }.joined(separator: ", ")
                    violate(.matching, "\(stream.name) has serial \(frame.serial); expected \(asked)", stream.bytes)
                }
            }
        }
    }

    private mutating func checkChannel(_ frame: Frame, _ stream: ConformanceStream) {
        guard kit.client.matching == .inOrderByChannel, !stream.sent.isEmpty else { return }
        var codec = codec(of: .client, after: stream.preamble)
        let (channel, asked) = (codec.channel(of: frame), stream.sent.map { codec.channel(of: $0) })
        guard !asked.contains(channel) else { return }
        let expected = asked.map { "\($0)" }.joined(separator: ", ")
        violate(.matching, "\(stream.name) is on channel \(channel); expected \(expected)", stream.bytes)
    }

    private mutating func checkRepetition(_ frame: Frame, _ stream: ConformanceStream) {
        let isSerial = !kit.client.matching.isInOrder
        guard kit.client.checksResponses, frame.malformedReason == nil, isSerial || stream.sent.count == 1,
            let request = stream.sent.first(where: { !isSerial || $0.serial == frame.serial })
        else { return }
        var codec = codec(of: .client, after: stream.preamble)
        do throws(FrameError) {
            try codec.check(frame, against: request)
        } catch {
            violate(.matching, "the codec's check of \(stream.name) against its request threw \(error)", stream.bytes)
        }
    }

    mutating func checkHeartbeat() {
        for number in [0, 1, 49, UInt64.max] {
            checkPing(number, from: .client)
            if kit.hasServerSide { checkPing(number, from: .server) }
        }
    }

    private mutating func checkPing(_ number: UInt64, from side: Side) {
        let other: Side = side == .client ? .server : .client
        guard let ping = codec(of: side).ping(number: number) else { return }
        let what = "ping \(number) of the \(side)"
        if ping.kind != .ping { violate(.heartbeat, "\(what) has the kind \(ping.kind)") }
        var sender = codec(of: side)
        if (try? bytes(of: [ping], by: &sender)) == nil, hasPingLater(number, from: side) { return }
        guard let (received, bytes) = roundTrip([ping], to: other, .heartbeat, what), kit.hasServerSide else { return }
        guard received.count == 1, let arrived = received.first, arrived.kind == .ping else {
            let found = received.map { "\($0.kind)" }.joined(separator: ", ")
            return violate(.heartbeat, "\(what) was decoded as \(found.isEmpty ? "nothing" : found)", bytes)
        }
        guard let pong = codec(of: other).pong(answering: arrived) else { return }
        guard let (answer, pongBytes) = roundTrip([pong], to: side, sent: [ping], .heartbeat, "the pong to \(what)")
        else { return }
        let look = rules(of: side).pongsLookLikePings
        guard answer.count == 1, let last = answer.first, last.kind == .pong || last.kind == .ping else {
            return violate(.heartbeat, "the pong to \(what) was decoded as \(answer.map(\.kind))", pongBytes)
        }
        if look, last.kind == .pong {
            violate(.heartbeat, "pongsLookLikePings is true, but the pong to \(what) was decoded as a pong", pongBytes)
        } else if !look, last.kind == .ping {
            violate(.heartbeat, "the pong to \(what) was decoded as a ping, but pongsLookLikePings is false", pongBytes)
        }
        if last.serial != 0, last.serial != ping.serial {
            violate(.heartbeat, "the pong to \(what) has serial \(last.serial), not 0 or \(ping.serial)", pongBytes)
        }
    }

    /// A protocol may allow no ping on a new link, but one after a sample.
    private mutating func hasPingLater(_ number: UInt64, from side: Side) -> Bool {
        for stream in streams(to: side) {
            var codec = feed([stream.bytes[...]], to: side, sent: stream.sent, after: stream.preamble, as: stream.name)
                .codec
            guard let ping = codec.ping(number: number) else { continue }
            if (try? bytes(of: [ping], by: &codec)) != nil { return true }
        }
        return false
    }

    private mutating func roundTrip(
        _ frames: [Frame],
        to side: Side,
        sent: [Frame] = [],
        after preamble: [CodecConformance.Preamble] = [],
        _ rule: Rule,
        _ what: String
    ) -> (frames: [Frame], bytes: [UInt8])? {
        var sender = codec(of: side == .client ? .server : .client, after: preamble)
        let bytes: [UInt8]
        do throws(FrameError) {
            bytes = try self.bytes(of: frames, by: &sender)
        } catch {
            violate(rule, "encode of \(what) threw \(error)")
            return nil
        }
        guard side == .client || kit.hasServerSide else { return nil }
        let link = feedChecked([bytes[...]], to: side, sent: sent, after: preamble, keepsAll: true, as: what)
        if let refusal = link.refusal {
            violate(rule, "the \(side) refused \(what): \(refusal)", bytes)
            return nil
        }
        return link.fault == nil ? (link.frames, bytes) : nil
    }

    mutating func checkCancellation() {
        guard let (request, preamble) = request else { return }
        guard var cancel = codec(of: .client).cancelFrame(for: request.serial, type: request.type) else { return }
        let kind = codec(of: .client).cancelKind(ofType: request.type)
        if kind.hasOwnSerial, case .serial(let range) = kit.client.matching {
            cancel.cancelledSerial = request.serial
            cancel.serial = request.serial < range.upperBound ? request.serial + 1 : range.lowerBound
        }
        let what = "the cancellation of serial \(request.serial)"
        if cancel.kind != .cancel { violate(.cancellation, "\(what) has the kind \(cancel.kind)") }
        guard let (received, bytes) = roundTrip([request, cancel], to: .server, after: preamble, .cancellation, what)
        else { return }
        guard received.count == 2, let arrived = received.last, arrived.kind == .cancel else {
            return violate(.cancellation, "\(what) was decoded as \(received.last.map { "\($0)" } ?? "nothing")", bytes)
        }
        let serial = kind.hasOwnSerial ? cancel.serial : request.serial
        if kit.transmitsSerials, arrived.serial != serial {
            violate(.cancellation, "\(what) was decoded with serial \(arrived.serial)", bytes)
        }
        if arrived.cancelledSerial != cancel.cancelledSerial {
            let found = arrived.cancelledSerial.map { "\($0)" } ?? "nil"
            violate(.cancellation, "\(what) was decoded with cancelledSerial \(found)", bytes)
        }
    }

    mutating func checkWindowUpdates() {
        for stream in streams(to: .server) {
            for frame in stream.frames where kit.client.isWindowUpdate(frame) != kit.server.isWindowUpdate(frame) {
                violate(.window, "\(stream.name) is a window update for one side, but not for the other", stream.bytes)
            }
        }
    }
}
