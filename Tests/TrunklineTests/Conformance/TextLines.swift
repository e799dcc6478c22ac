import Trunkline
import TrunklineTesting

/// Lines that end with a newline, matched in order. "ERR" begins an error response. The codec of the example, with
/// a lower limit.
struct TextLines: FrameCodec, ServerSideCodec {
    var matching: ResponseMatching { .inOrder }
    var received = Frame.Kind.response
    var maximumLine = 100

    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let end = input.firstOffset(of: UInt8(ascii: "\n")) else {
            guard input.count <= maximumLine else { throw FrameError(.illegalLength, "a line without end") }
            return nil
        }
        guard end <= maximumLine else { throw FrameError(.illegalLength, "a line of \(end) bytes") }
        guard let body = input.readBytes(end), input.skip(1) else { return nil }
        return Frame(received, isErrorResponse: received == .response && body.starts(with: "ERR".utf8), body: body)
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        guard !frame.body.contains(UInt8(ascii: "\n")) else { throw FrameError(.malformed, "a newline in a line") }
        guard frame.body.count <= maximumLine else { throw FrameError(.illegalLength, "a line too long") }
        output.append(frame.body)
        output.append(UInt8(ascii: "\n"))
    }

    func serverSide() -> any FrameCodec { TextLines(received: .request, maximumLine: maximumLine) }

    static let samples: [CodecConformance.Sample] = [
        .init(Frame(.request, body: "GET a"), bytes: Array("GET a\n".utf8)),
        .init(Frame(.response, body: "+a"), answering: Frame(.request, body: "GET a")),
        .init(Frame(.response, isErrorResponse: true, body: "ERR no")),
        .init([Frame(.response, body: "one"), Frame(.response, body: ""), Frame(.response, body: "three")]),
        .bytes(Array("one\ntwo\n".utf8), are: [Frame(.response, body: "one"), Frame(.response, body: "two")]),
        .refused([UInt8](repeating: 0x61, count: 101), with: .illegalLength),
    ]
}
