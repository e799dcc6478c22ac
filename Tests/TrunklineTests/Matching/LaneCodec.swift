import Trunkline
import TrunklineTesting

/// Lines that begin with the number of their channel.
struct LaneCodec: FrameCodec, ChannelCodec, PipeliningCodec, ServerSideCodec {
    var limit = Int.max
    var isServer = false

    var matching: ResponseMatching { .inOrderByChannel }
    func channel(of frame: Frame) -> UInt64 { frame["channel"] ?? 0 }
    var maximumInFlightPerChannel: Int { limit }
    func mayPipeline(behind request: Frame) -> Bool { !String(request.body).hasPrefix("hold") }

    func serverSide() -> any FrameCodec {
        var server = self
        server.isServer = true
        return server
    }

    static func ask(_ text: String, on channel: UInt64) -> Request {
        var request = Request(body: Bytes(text))
        request["channel"] = channel
        return request
    }

    static func answer(to request: Frame) -> Reaction {
        let text = String(request.body)
        if text.hasPrefix("none") || text == "message" { return .noReply }
        if text.hasSuffix("slow") { return .after(.seconds(1), .echo) }
        if text.hasSuffix("soon") { return .after(.milliseconds(20), .echo) }
        return .echo
    }

    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let end = input.firstOffset(of: 0x0A), let line = input.readBytes(end), input.skip(1) else { return nil }
        let words = String(line).split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        guard words.count == 2, let channel = UInt64(words[0]) else { throw FrameError(.malformed, "\(line)") }
        var frame = Frame(isServer ? .request : .response, body: Bytes(String(words[1])))
        frame["channel"] = channel
        if !isServer, words[1] == "fail" {
            frame.isErrorResponse = true
            (frame.answers, frame.isFateUnknown) = (.next(.max), true)
        }
        return frame
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        output.append("\(channel(of: frame)) \(frame.isFateUnknown ? "fail" : String(frame.body))\n".utf8)
    }
}
