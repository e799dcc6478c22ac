import Trunkline
import TrunklineTesting

/// Lines of words with serials, in which one line can answer many requests or end the link.
///
///     ask 7 text                   a request, or a response to one
///     through 7 / set 1-3,8 / all / next 3 [types]     responses to several
///     parts set 1-3,8 types text   a part for several, which are named as above; types may be `-`
///     error 7 code NAME text       an error response with a reason
///     broken code NAME text        every request has failed, and nobody knows whether it was processed
///     bye code NAME text           ends the link now; `leave …`: when its requests are answered
///     push text
///     ping, pong, part     heartbeats, and pieces of a request
struct WordsCodec: FrameCodec, ServerSideCodec, ClosingCodec, PipeliningCodec, HeartbeatCodec, FrameLimitCodec,
    UploadCodec
{
    var isServer = false
    var maximumLine = 1000
    var isInOrder = false
    var range: ClosedRange<SerialNumber> = 1...SerialNumber(UInt32.max)

    var matching: ResponseMatching { isInOrder ? .inOrder : .serial(range) }

    func serverSide() -> any FrameCodec {
        var server = self
        server.isServer = true
        return server
    }

    func closingFrame() -> Frame? { Frame(.cancel, body: "close") }
    func closingFrame(answering farewell: Frame) -> Frame? { Frame(.cancel, body: "close-ok") }

    /// Nothing may follow a request that begins with "hold".
    func mayPipeline(behind request: Frame) -> Bool { !String(request.body).hasPrefix("hold") }

    func ping(number: UInt64) -> Frame? { Frame(.ping) }
    func pong(answering ping: Frame) -> Frame? { Frame(.pong) }

    mutating func setMaximumFrameSize(_ size: Int) { maximumLine = size }

    var abandoningEndsLink: Bool { true }

    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        let end = input.firstOffset(of: 0x0A)
        guard end ?? input.count < maximumLine else { throw FrameError(exceedingLimit: "\(maximumLine) bytes") }
        guard let end, let line = input.readBytes(end), input.skip(1) else { return nil }
        let words = String(line).split(separator: " ", omittingEmptySubsequences: false).map(String.init)
        func number(_ index: Int) throws(FrameError) -> UInt64 {
            guard words.count > index, let number = UInt64(words[index]) else {
                throw FrameError(.malformed, "\(line)")
            }
            return number
        }
        func rest(_ index: Int) -> String { words.dropFirst(index).joined(separator: " ") }
        func reason(_ index: Int) throws(FrameError) -> ServerReason {
            ServerReason(
                words.count > index + 1 ? words[index + 1] : "",
                code: Int(clamping: try number(index)),
                text: rest(index + 2)
            )
        }
        switch words[0] {
        case "ping": return Frame(.ping)
        case "pong": return Frame(.pong)
        case "part": return Frame(.part, serial: try number(1), body: Bytes(rest(2)))
        case "parts":
            var frame = Frame(.part, body: Bytes(rest(4)))
            try name(&frame, words.dropFirst())
            if rest(4) == "malformed" { frame.markMalformed(because: FrameError(.malformed, "no good")) }
            return frame
        case "ask":
            let serial = try number(2)
            let kind: Frame.Kind = isServer ? .request : .response
            return Frame(kind, type: UInt32(try number(1)), serial: serial, body: Bytes(rest(3)))
        case "cancel": return Frame(.cancel, body: Bytes(rest(1)))
        case "push": return Frame(.push, body: Bytes(rest(1)))
        case "error":
            var frame = Frame(.response, serial: try number(1), isErrorResponse: true)
            frame.reason = try reason(2)
            return frame
        case "broken":
            var frame = Frame(.response, isErrorResponse: true)
            (frame.answers, frame.isFateUnknown, frame.reason) = (.all, true, try reason(1))
            return frame
        case "bye", "leave", "last":
            var frame = Frame(words[0] == "last" ? .push : .goAway)
            frame.markLinkEnding(words[0] == "leave" ? .whenAnswered : .now)
            frame.reason = try reason(1)
            return frame
        case "through", "set", "all", "next":
            var frame = Frame(.response)
            try name(&frame, words[...])
            return frame
        default: throw FrameError(.malformed, "\(line)")
        }
    }

    /// Sets the requests to which a frame belongs, from "through 7 types" and the like.
    private func name(_ frame: inout Frame, _ words: ArraySlice<String>) throws(FrameError) {
        func word(_ index: Int) -> String { words.count > index ? words[words.startIndex + index] : "" }
        func number(_ index: Int) throws(FrameError) -> UInt64 {
            guard let number = UInt64(word(index)) else { throw FrameError(.malformed, word(index)) }
            return number
        }
        switch word(0) {
        case "through":
            frame.serial = try number(1)
            frame.answers = .through
        case "set":
            var ranges: [ClosedRange<SerialNumber>] = []
            for range in word(1).split(separator: ",") {
                let bounds = range.split(separator: "-").compactMap { SerialNumber($0) }
                guard let first = bounds.first, let last = bounds.last, first <= last else {
                    throw FrameError(.malformed, "\(range)")
                }
                ranges.append(first...last)
            }
            frame.answers = .serials(ranges)
        case "next": frame.answers = .next(Int(try number(1)))
        default: frame.answers = .all
        }
        if words.count > 2, word(2) != "-" { frame.answeredTypes = [UInt32(try number(2))] }
    }

    /// What `name` reads.
    private static func names(of frame: Frame) -> String {
        switch frame.answers {
        case .through: "through \(frame.serial)"
        case .serials(let ranges): "set " + ranges.map { "\($0.lowerBound)-\($0.upperBound)" }.joined(separator: ",")
        case .next(let count): "next \(count)"
        default: "all 0"
        }
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        guard frame.body.count < maximumLine else { throw FrameError(exceedingLimit: "\(maximumLine) bytes") }
        switch frame.kind {
        case .part where frame.answers != .one:
            let types = frame.answeredTypes?.first.map { "\($0)" } ?? "-"
            output.append("parts \(Self.names(of: frame)) \(types) \(String(frame.body))\n".utf8)
        case .part: output.append("part \(frame.serial) \(String(frame.body))\n".utf8)
        case .response where frame.isFateUnknown: output.append("broken 0 none\n".utf8)
        case .response where frame.answers != .one:
            let types = frame.answeredTypes?.first.map { " \($0)" } ?? ""
            output.append("\(Self.names(of: frame))\(types)\n".utf8)
        case .request, .response: output.append("ask \(frame.type) \(frame.serial) \(String(frame.body))\n".utf8)
        default: output.append("\(frame.kind) \(String(frame.body))\n".utf8)
        }
    }
}

extension WordsCodec {
    /// The reaction of a server. A request whose body begins with "!" gets the lines after it, separated by "|", in
    /// which `*` stands for its serial, and `close` for the end of the connection. "echo" is sent back, "slow" after a
    /// second. Other requests get nothing.
    static func answer(to request: Frame) -> Reaction {
        let text = String(request.body)
        if text == "echo" { return .echo }
        if text.hasSuffix("slow") { return .after(.seconds(1), .echo) }
        if text.hasSuffix("slower") { return .after(.seconds(100), .echo) }
        guard text.hasPrefix("!") else { return .noReply }
        return .sequence(
            text.dropFirst().split(separator: "|").map { line in
                if line == "close" { return .close }
                if line == "echo" { return .echo }
                let line = line.split(separator: "*", omittingEmptySubsequences: false)
                return .garbage(Bytes(line.joined(separator: "\(request.serial)") + "\n"))
            }
        )
    }
}
