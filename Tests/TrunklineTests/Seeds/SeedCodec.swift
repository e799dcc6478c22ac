import Trunkline

/// A layout whose server can announce shutdown, with a retry delay in milliseconds: by a push that begins with "!". A
/// response that begins with "+" is a part of a reply, and one that begins with "&" a part without a body for several
/// requests: those with the serials "first-last", "all", or "next" in order. Parts of requests have a type.
struct SeedCodec: FrameCodec, HeartbeatCodec, CancellingCodec, GoAwayCodec, ServerSideCodec {
    var layout: FrameLayout
    var isServer = false
    var matching: ResponseMatching { layout.matching }
    var pongsLookLikePings: Bool { layout.pongsLookLikePings }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard var frame = try layout.decode(&input) else { return nil }
        if frame.kind == .push, frame.body.first == UInt8(ascii: "!") { frame.kind = .goAway }
        if frame.kind == .response, frame.body.first == UInt8(ascii: "+") {
            frame.kind = .part
            frame.body = Bytes(frame.body.dropFirst())
        }
        if frame.kind == .response, frame.body.first == UInt8(ascii: "&") {
            let ends = String(frame.body.dropFirst()).split(separator: "-").compactMap { SerialNumber($0) }
            frame.kind = .part
            frame["shared"] = 1
            frame.answers = frame.body == "&all" ? .all : .next(2)
            if ends.count == 2 { frame.answers = .serials([ends[0]...ends[1], ends[0]...ends[0]]) }
            frame.body = Bytes()
        }
        return frame
    }

    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        var frame = frame
        if isServer, frame.kind == .part {
            frame.kind = .response
            frame.body = Bytes("+" + String(frame.body))
        }
        try layout.encode(frame, into: &output)
    }

    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? { layout.cancelFrame(for: serial, type: type) }
    func ping(number: UInt64) -> Frame? { layout.ping(number: number) }
    func pong(answering ping: Frame) -> Frame? { layout.pong(answering: ping) }
    func retryAfter(in goAway: Frame) -> Duration? { Int(String(goAway.body).dropFirst()).map { .milliseconds($0) } }

    func serverSide() -> any FrameCodec {
        guard let layout = layout.serverSide() as? FrameLayout else { return self }
        return SeedCodec(layout: layout, isServer: true)
    }

    /// The twelve-byte header, with very many serials.
    static let wide = SeedCodec(layout: .standard)
    /// The same with four serials. No response may be sent twice then, and none after the quarantine.
    static let narrow = SeedCodec(layout: standardLayout(serials: 50...53))
    /// With a status, a checksum, and pongs that do not look like pings.
    static let strict = SeedCodec(
        layout: FrameLayout {
            Field.constant([0xCA, 0xFE])
            Field.type(UInt16.self)
            Field.serial(UInt32.self)
            Field.status(UInt16.self)
            Field.length(UInt32.self, counting: .body)
            Field.body
            Field.checksum(.adler32, over: .body)
        }
        .roles {
            $0.ping = 1
            $0.pong = 3
            $0.push = 2
            $0.cancel = 4
            $0.part = 5
            $0.success = 200
            $0.serials = 50...
        }
    )
    /// Without serials: the server must answer everything in order.
    static let inOrder = SeedCodec(
        layout: FrameLayout {
            Field.type(UInt16.self)
            Field.status(UInt16.self)
            Field.length(UInt32.self, counting: .body)
            Field.body
        }
        .roles {
            $0.ping = 1
            $0.pong = 3
            $0.push = 2
            $0.success = 200
        }
    )
}
