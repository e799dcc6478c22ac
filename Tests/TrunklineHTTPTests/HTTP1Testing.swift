import Testing
import Trunkline

@testable import TrunklineHTTP

/// One response, joined from its parts.
struct HTTP1Reply {
    var frame: Frame
    var parts = 1
    var status: Int { Int(frame.status) }
    var body: String? { (try? HTTP1Response(frame)).map { String($0.body) } }
}

/// Encodes and decodes with a codec in bytes and text.
protocol HTTP1Testing {}

extension HTTP1Testing {
    /// Decodes `text`, which arrives in pieces of `size` bytes, as a server's responses to requests with these methods.
    func replies(
        _ text: String,
        to methods: [HTTP1Request.Method] = [.get],
        inPiecesOf size: Int = .max,
        thenEnd isEnd: Bool = false,
        by codec: HTTP1Codec = HTTP1Codec()
    ) throws(FrameError) -> [HTTP1Reply] {
        try replies(Array(text.utf8), to: methods, inPiecesOf: size, thenEnd: isEnd, by: codec)
    }

    func replies(
        _ bytes: [UInt8],
        to methods: [HTTP1Request.Method] = [.get],
        inPiecesOf size: Int = .max,
        thenEnd isEnd: Bool = false,
        by codec: HTTP1Codec = HTTP1Codec()
    ) throws(FrameError) -> [HTTP1Reply] {
        var codec = LinkCodec(codec)
        for method in methods { codec.noteSent(Frame(.request, type: method.type)) }
        return joined(try frames(bytes, inPiecesOf: size, thenEnd: isEnd, by: &codec))
    }

    /// All frames that `codec` decodes from `bytes`, which arrive in pieces of `size` bytes.
    func frames(
        _ bytes: [UInt8],
        inPiecesOf size: Int,
        thenEnd isEnd: Bool = false,
        by codec: inout LinkCodec
    ) throws(FrameError) -> [Frame] {
        var (input, frames) = (ReceiveBuffer(bytes.prefix(size)), [Frame]())
        var rest = bytes.dropFirst(size)
        try codec.decodeAll(&input, into: &frames)
        while !rest.isEmpty {
            let count = unsafe input.fill { memory in
                let piece = rest.prefix(min(size, memory.count))
                unsafe memory.copyBytes(from: piece)
                return piece.count
            }
            rest = rest.dropFirst(count)
            try codec.decodeAll(&input, into: &frames)
        }
        if isEnd { try codec.decodeAllAtEnd(&input, into: &frames) }
        return frames
    }

    func joined(_ frames: [Frame]) -> [HTTP1Reply] {
        var (replies, body, parts) = ([HTTP1Reply](), [UInt8](), 1)
        for frame in frames {
            body += frame.body
            if frame.kind == .part {
                parts += 1
            } else {
                var whole = frame
                whole.body = Bytes(body)
                replies.append(HTTP1Reply(frame: whole, parts: parts))
                (body, parts) = ([], 1)
            }
        }
        // A message without its end is left out.
        return replies
    }

    /// The error of decoding `text`.
    func refusal(
        of text: String,
        to methods: [HTTP1Request.Method] = [.get],
        by codec: HTTP1Codec = HTTP1Codec()
    ) -> FrameError? {
        do throws(FrameError) {
            _ = try replies(text, to: methods, by: codec)
            return nil
        } catch {
            return error
        }
    }

    /// The text that `codec` writes for `frame`.
    func encoded(_ frame: Frame, by codec: any FrameCodec = HTTP1Codec(host: "h")) throws(FrameError) -> String {
        var (codec, output) = (codec, SendBuffer())
        try codec.encode(frame, into: &output)
        return String(decoding: output.bytes, as: UTF8.self)
    }
}
