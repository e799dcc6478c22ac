// One received frame can answer many requests: a publisher's messages are confirmed by cumulative acknowledgements, as in
// AMQP 0-9-1 (basic.ack with `multiple`).

import Trunkline
import TrunklineTesting

/// A frame is a byte that says what it is, a serial of eight bytes, a length of four bytes and a body.
struct ConfirmCodec: FrameCodec, ServerSideCodec {
    enum Tag: UInt8 { case publish, ack, ackThrough, channelError, connectionClose }

    var matching: ResponseMatching { .serial(1...UInt64.max) }
    var isServer = false
    var maximumBody: UInt32 = 65_536

    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let byte = input.byte(at: 0), let length = input.integer(at: 9, as: UInt32.self) else { return nil }
        guard let tag = Tag(rawValue: byte), (tag == .publish) == isServer else {
            throw FrameError(.unknownType, "tag \(byte)")
        }
        guard length <= maximumBody else { throw FrameError(exceedingLimit: "\(length) of \(maximumBody) bytes") }
        input.await(13 + Int(length))
        guard input.skip(1), let serial = input.readInteger(as: UInt64.self), input.skip(4),
            let body = input.readBytes(Int(length))
        else { return nil }
        var frame = Frame(.response, serial: serial, body: body)
        switch tag {
        case .publish: frame.kind = .request
        case .ack: break
        case .ackThrough: frame.answers = .through
        case .channelError:
            // The server has closed the channel, and does not say which of the messages it had taken.
            frame.isErrorResponse = true
            frame.answers = .all
            frame.isFateUnknown = true
            frame.reason = ServerReason("NOT_FOUND", code: 404, text: String(body))
        case .connectionClose:
            frame.kind = .goAway
            frame.markLinkEnding(.now)
            frame.reason = ServerReason("CONNECTION_FORCED", code: 320, text: String(body))
        }
        return frame
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        guard frame.body.count <= maximumBody else { throw FrameError(exceedingLimit: "over \(maximumBody) bytes") }
        let tag: Tag =
            switch (frame.kind, frame.answers) {
            case (.request, _): .publish
            case (.goAway, _): .connectionClose
            case (_, .through): .ackThrough
            case (_, .all): .channelError
            default: .ack
            }
        output.append(tag.rawValue)
        output.append(integer: frame.serial)
        output.append(integer: UInt32(frame.body.count))
        output.append(frame.body)
    }

    func serverSide() -> any FrameCodec { ConfirmCodec(isServer: true) }
}

/// Confirms every tenth message, and with it those before it.
let server = try await LoopbackServer.start(speaking: ConfirmCodec()) { request in
    var answer = Frame(.response)
    switch String(request.body) {
    case "message 10", "message 20", "message 30": answer.answers = .through
    case "to nowhere":
        (answer.answers, answer.isErrorResponse, answer.body) = (.all, true, "no exchange 'nowhere'")
    case "at closing time": return .sequence([.frame(Frame(.goAway, body: "shutting down")), .close])
    default: return .noReply
    }
    return .reply(answer)
}
try await withClient(to: server.endpoint, speaking: ConfirmCodec()) { client in
    let confirmed = await client.send(all: (1...30).map { Request(body: "message \($0)") })
    print("\(confirmed.count { (try? $0.get()) != nil }) of 30 messages were confirmed")

    let failed = await client.send(all: ["waiting", "to nowhere"].map { Request(body: $0) })
    for case .failure(let error) in failed { print(error.code, error.fate, error.reason.map { "\($0)" } ?? "") }

    do throws(ClientError) {
        _ = try await client.send(Request(body: "at closing time"))
    } catch {
        print(error.code, error.fate, error.reason.map { "\($0)" } ?? "")
    }
}
await server.stop()
print("Acknowledgements: done")
