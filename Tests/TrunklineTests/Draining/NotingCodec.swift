import Trunkline

/// Lines matched in order. The codec uses what it learns besides the bytes: which frames were sent, and that the
/// connection has ended.
///
/// A response repeats its request. A "!" before it marks the last response of its link. "~" is a goAway. A response
/// without its newline ends with the connection.
struct NotingCodec: FrameCodec, EndOfStreamCodec, SentFrameCodec, ServerSideCodec {
    /// The requests that were sent and not answered.
    var asked: [String] = []
    var isServer = false
    /// Whether a response that does not repeat its request is an error.
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
