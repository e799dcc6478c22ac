// One part can belong to several replies: a message of market data for each subscription that it concerns.

import Trunkline
import TrunklineTesting

/// A frame is a byte that says what it is, the number of serials, the serials of four bytes each, a length of two bytes and
/// a body.
struct TickerCodec: FrameCodec, ServerSideCodec {
    enum Tag: UInt8 { case request, quote, response }

    var matching: ResponseMatching { .serial(1...0xFFFF_FFFF) }
    var isServer = false

    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let byte = input.byte(at: 0), let count = input.byte(at: 1) else { return nil }
        guard let tag = Tag(rawValue: byte), (tag == .request) == isServer, count > 0 else {
            throw FrameError(.malformed, "tag \(byte) with \(count) serials")
        }
        let head = 2 + 4 * Int(count)
        guard let length = input.integer(at: head, as: UInt16.self) else { return nil }
        input.await(head + 2 + Int(length))
        guard input.count >= head + 2 + Int(length), input.skip(2) else { return nil }
        let numbers = (0..<count).compactMap { _ in input.readInteger(as: UInt32.self) }.map { SerialNumber($0) }
        guard input.skip(2), let body = input.readBytes(Int(length)) else { return nil }
        var frame = Frame(tag == .request ? .request : .response, serial: numbers[0], body: body)
        let serials = numbers.map { $0...$0 }
        if tag == .quote {
            frame.kind = .part
            frame.answers = .serials(serials)
        }
        return frame
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        var serials = [frame.serial]
        if case .serials(let ranges) = frame.answers { serials = ranges.flatMap { Array($0) } }
        guard (1...255).contains(serials.count), frame.body.count <= UInt16.max else {
            throw FrameError(.malformed, "\(serials.count) serials, \(frame.body.count) bytes")
        }
        let tag: Tag = frame.kind == .part ? .quote : frame.kind == .request ? .request : .response
        output.append(tag.rawValue)
        output.append(UInt8(serials.count))
        for serial in serials { output.append(integer: UInt32(truncatingIfNeeded: serial)) }
        output.append(integer: UInt16(frame.body.count))
        output.append(frame.body)
    }

    func serverSide() -> any FrameCodec { TickerCodec(isServer: true) }
}

/// A quote of one share, for the subscriptions with these serials.
@Sendable func quote(_ text: Bytes, for serials: SerialNumber...) -> Reaction {
    var quote = Frame(.part, body: text)
    quote.answers = .serials(serials.map { $0...$0 })
    return .frame(quote)
}

/// Sends quotes to the subscriptions 1 and 2 when it receives the third request, and then ends them.
let server = try await LoopbackServer.start(speaking: TickerCodec()) { request in
    guard request.body == "open" else { return .noReply }
    let ends = (1...2).map { Reaction.frame(Frame(.response, serial: $0, body: "closed")) }
    return .sequence([quote("ABC 17.20", for: 1, 2), quote("XYZ 3.14", for: 2)] + ends + [.reply("opened")])
}
try await withClient(to: server.endpoint, speaking: TickerCodec()) { client in
    let subscriptions = ["ABC", "ABC and XYZ"].map { client.stream(Request(body: $0)) }
    _ = try await client.send(Request(body: "open"))
    for (index, subscription) in subscriptions.enumerated() {
        for try await message in subscription { print("subscription \(index + 1): \(message.body)") }
    }
}
await server.stop()
print("SharedParts: done")
