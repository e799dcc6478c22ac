import TrunklineCore

/// The state of one link's responses.
struct HTTP1Responses: Sendable {
    /// What determines the length of a response (RFC 9112 §6.3).
    private struct Question: Sendable {
        enum Method: Sendable { case ordinary, head, connect }

        var method = Method.ordinary
        var isLast = false
    }

    private struct Answer: Sendable {
        var status = 0
        var headLength = 0
        var endsLink = false
    }

    private enum Place: Sendable {
        /// Before or within the head, or interim responses before it.
        case head
        /// Waiting for a message of this size, after bytes to discard.
        case whole(Int, skipping: Int)
        /// `left` bytes are missing.
        case content(left: Int)
        case chunks(HTTP1Chunks)
        /// Ends with the connection; `count` bytes have arrived.
        case untilEnd(count: Int)
        /// After the last response of the link.
        case over
        /// After a response that belongs to no request: the rest of the link is discarded.
        case discarding
    }

    private var asked = Deque<Question>()
    private var place = Place.head
    private var answer = Answer()
    private var section = HTTP1Section()
    private var line: HTTP1StatusLine?
    private var framing = HTTP1Framing(minor: 1, maximumFields: 0)
    /// The head began to arrive before any request was sent, so it cannot be the response to one.
    private var isUnasked = false
    private var start = 0
    private var interimCount = 0

    private static let maximumInterim = 64

    mutating func noteSent(_ type: UInt32, isLast: Bool) {
        let method: Question.Method =
            switch type {
            case HTTP1Request.Method.headType: .head
            case HTTP1Request.Method.connectType: .connect
            default: .ordinary
            }
        asked.append(Question(method: method, isLast: isLast))
    }

    mutating func decode(
        _ input: inout ReceiveBuffer,
        _ limits: HTTP1Limits,
        partSize: Int
    ) throws(FrameError) -> Frame? {
        switch place {
        case .head: return try takeHead(&input, limits, partSize: partSize)
        case .whole(let count, let skipped): return takeWhole(&input, count, skipping: skipped)
        case .content(let left):
            let count = min(left, input.count)
            guard count > 0, let content = input.readBytes(count) else { return nil }
            if count == left { return finish(content) }
            place = .content(left: left - count)
            return part(content)
        case .chunks(let chunks): return try takeChunks(&input, chunks, limits)
        case .untilEnd(let count):
            try limits.check(contentLength: count + input.count)
            guard let content = input.readBytes(input.count), !content.isEmpty else { return nil }
            place = .untilEnd(count: count + content.count)
            return part(content)
        case .over:
            guard !input.isEmpty else { return nil }
            throw FrameError(.malformed, "bytes after the last response of the link (RFC 9112 §9.6)")
        case .discarding:
            input.discard(input.count)
            return nil
        }
    }

    mutating func decodeEnd(_ input: inout ReceiveBuffer, _ limits: HTTP1Limits) throws(FrameError) -> Frame? {
        guard case .untilEnd(let count) = place else { return nil }
        try limits.check(contentLength: count + input.count)
        return finish(input.readBytes(input.count) ?? Bytes())
    }

    private mutating func takeHead(
        _ input: inout ReceiveBuffer,
        _ limits: HTTP1Limits,
        partSize: Int
    ) throws(FrameError) -> Frame? {
        guard !input.isEmpty else { return nil }
        if asked.isEmpty, section.hasNotBegun { isUnasked = true }
        guard let (line, end) = try readHead(input, limits) else { return nil }
        guard !isUnasked, let question = asked.popFirst() else { return leave(&input, line, end) }
        let endsLink = question.isLast || framing.endsLink
        answer = Answer(status: line.status, headLength: end - start, endsLink: endsLink)
        let skipped = start
        switch (question.method, line.status) {
        case (.connect, 200...299):
            answer.endsLink = true
            return takeWhole(&input, answer.headLength, skipping: skipped)
        case (.head, _), (_, 204), (_, 304): return takeWhole(&input, answer.headLength, skipping: skipped)
        default: break
        }
        if framing.isChunked {
            if let whole = try takeWhole(chunksIn: &input, limits) { return whole }
            return takeHeadAlone(&input, then: .chunks(HTTP1Chunks()))
        }
        guard let length = framing.contentLength else {
            answer.endsLink = true
            return takeHeadAlone(&input, then: .untilEnd(count: 0))
        }
        try limits.check(contentLength: length)
        let count = answer.headLength + length
        if count <= max(partSize, input.count - start) { return takeWhole(&input, count, skipping: skipped) }
        return takeHeadAlone(&input, then: .content(left: length))
    }

    /// Servers and proxies send `408` before they close an idle link. The frame is no response, because a request may
    /// have been sent since its first bytes arrived. It ends the link like an orderly close.
    private mutating func leave(_ input: inout ReceiveBuffer, _ line: HTTP1StatusLine, _ end: Int) -> Frame? {
        input.skip(start)
        var frame = Frame(.goAway, status: UInt32(line.status), body: input.readBytes(end - start) ?? Bytes())
        frame.markLinkEnding()
        place = .discarding
        return frame
    }

    /// Checks each line as soon as it has arrived: a head that can no longer become valid is not awaited.
    private mutating func readHead(
        _ input: ReceiveBuffer,
        _ limits: HTTP1Limits
    ) throws(FrameError) -> (HTTP1StatusLine, end: Int)? {
        try input.withSpan { bytes throws(FrameError) in
            try Self.checkBeginning(bytes, start)
            while let next = try section.nextLine(in: bytes) {
                try limits.check(headLength: next.upperBound)
                guard let line else {
                    let line = try HTTP1StatusLine(in: bytes, at: next.lowerBound)
                    framing = HTTP1Framing(minor: line.minor, maximumFields: limits.fields)
                    self.line = line
                    continue
                }
                guard next.count == 2 else {
                    try framing.add(bytes, next)
                    continue
                }
                guard line.status < 200 else { return (line, next.upperBound) }
                try skipInterim(line, next.upperBound)
                try Self.checkBeginning(bytes, start)
            }
            try limits.check(headLength: bytes.count)
            return nil
        }
    }

    private mutating func skipInterim(_ interim: HTTP1StatusLine, _ end: Int) throws(FrameError) {
        guard interim.status != 101 else {
            throw FrameError(.malformed, "101 Switching Protocols without a request to upgrade")
        }
        interimCount += 1
        guard interimCount <= Self.maximumInterim else {
            throw FrameError(
                exceedingLimit: "more than \(Self.maximumInterim) interim responses before a response"
            )
        }
        (start, line) = (end, nil)
    }

    /// Rejects bytes that are not HTTP at once: they may never contain the end of a line.
    private static func checkBeginning(_ bytes: Span<UInt8>, _ start: Int) throws(FrameError) {
        guard HTTP1Grammar.isVersion(bytes, from: start) else {
            throw FrameError(.malformed, "not an HTTP/1.x response")
        }
    }

    private mutating func takeWhole(_ input: inout ReceiveBuffer, _ count: Int, skipping skipped: Int) -> Frame? {
        guard input.count >= skipped + count else {
            place = .whole(count, skipping: skipped)
            input.await(skipped + count)
            return nil
        }
        input.skip(skipped)
        return finish(input.readBytes(count) ?? Bytes())
    }

    private mutating func takeWhole(
        chunksIn input: inout ReceiveBuffer,
        _ limits: HTTP1Limits
    ) throws(FrameError) -> Frame? {
        var chunks = HTTP1Chunks(at: start + answer.headLength)
        let (start, headLength) = (start, answer.headLength)
        let message = try input.withSpan { bytes throws(FrameError) -> [UInt8]? in
            var message: [UInt8] = []
            HTTP1Grammar.append(bytes, start..<start + headLength, to: &message)
            try chunks.advance(in: bytes, content: &message, limits: limits)
            guard chunks.isDone else { return nil }
            HTTP1Grammar.append(bytes, chunks.trailers, to: &message)
            return message
        }
        guard let message else { return nil }
        input.skip(chunks.offset)
        return finish(Bytes(message), trailerLength: chunks.trailers.count)
    }

    private mutating func takeHeadAlone(_ input: inout ReceiveBuffer, then next: Place) -> Frame? {
        input.skip(start)
        place = next
        return part(input.readBytes(answer.headLength) ?? Bytes())
    }

    private mutating func takeChunks(
        _ input: inout ReceiveBuffer,
        _ chunks: HTTP1Chunks,
        _ limits: HTTP1Limits
    ) throws(FrameError) -> Frame? {
        var chunks = chunks
        let content = try input.withSpan { bytes throws(FrameError) in
            var content: [UInt8] = []
            try chunks.advance(in: bytes, content: &content, limits: limits)
            HTTP1Grammar.append(bytes, chunks.trailers, to: &content)
            return content
        }
        if chunks.isDone {
            input.skip(chunks.offset)
            return finish(Bytes(content), trailerLength: chunks.trailers.count)
        }
        if !content.isEmpty {
            input.skip(chunks.offset)
            chunks.consume()
        }
        place = .chunks(chunks)
        return content.isEmpty ? nil : part(Bytes(content))
    }

    private func part(_ body: Bytes) -> Frame { Frame(.part, status: UInt32(answer.status), body: body) }

    private mutating func finish(_ body: Bytes, trailerLength: Int = 0) -> Frame {
        var frame = Frame(.response, status: UInt32(answer.status), body: body)
        frame[Frame.headLength] = UInt64(answer.headLength)
        frame[Frame.trailerLength] = UInt64(trailerLength)
        if answer.endsLink { frame.markLinkEnding() }
        place = answer.endsLink ? .over : .head
        (section, line, start, interimCount) = (HTTP1Section(), nil, 0, 0)
        return frame
    }
}
