import Trunkline

/// Lines in order, without serials, for what a codec is told beyond the bytes: what went out, and that the end has come.
///
/// A reply repeats its request; with a "!" before it, it is the last of its link. "~" is a goAway. A reply without its newline ends with
/// the connection.
struct NotingCodec: FrameCodec, EndOfStreamCodec, SentFrameCodec, ServerSideCodec {
    /// What was sent and not answered.
    var asked: [String] = []
    var isServer = false
    /// Whether replies that repeat no request are errors.
    var isStrict = true

    var matching: ResponseMatching { .inOrder }

    mutating func noteSent(_ frame: Frame) {
        if !isServer { asked.append(String(frame.body)) }
    }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let length = input.firstOffset(of: 0x0A), let line = input.readBytes(length) else { return nil }
        input.skip(1)
        return try frame(of: line)
    }

    mutating func decodeEnd(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard !input.isEmpty, let line = input.readBytes(input.count) else { return nil }
        var last = try frame(of: line)
        last.markLinkEnding()
        return last
    }

    private mutating func frame(of line: Bytes) throws(FrameError) -> Frame {
        if isServer { return Frame(.request, body: line) }
        if line == "~" { return Frame(.goAway) }
        let isLast = line.first == UInt8(ascii: "!")
        let text = String(line).drop { $0 == "!" }
        let expected = asked.isEmpty ? nil : asked.removeFirst()
        if isStrict, expected != String(text) {
            throw FrameError(.malformed, "\(text) in place of \(expected ?? "nothing")")
        }
        var frame = Frame(.response, body: Bytes(String(text)))
        if isLast { frame.markLinkEnding() }
        return frame
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        output.append(frame.body)
        output.append(0x0A)
    }

    func serverSide() -> any FrameCodec { NotingCodec(isServer: true) }
}
