import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineCore

/// The codec of the tutorial, byte by byte. The vectors were written by hand from the tables of the standard.
struct MQTTCodecTests {
    private func encode(_ frame: Frame, with codec: any FrameCodec = MQTTCodec()) throws -> [UInt8] {
        var codec = codec
        var output = SendBuffer()
        try codec.encode(frame, into: &output)
        return output.bytes
    }

    private func decode(_ bytes: [UInt8], with codec: any FrameCodec = MQTTCodec()) throws -> Frame? {
        var codec = codec
        var input = ReceiveBuffer(bytes)
        let frame = try codec.decode(&input)
        if frame != nil { #expect(input.isEmpty) }
        return frame
    }

    /// A request as a client sends it.
    private func frame(_ request: Request, serial: SerialNumber = 0) -> Frame {
        Frame(.request, type: request.type, serial: serial, body: request.body)
    }

    private func hex(_ text: String) -> [UInt8] {
        text.split(separator: " ").compactMap { UInt8($0, radix: 16) }
    }

    // MARK: Encoding

    @Test func connectHasTheSession() throws {
        let plain = Request.connect(MQTT.Session(clientID: "c", keepAlive: 258))
        #expect(try encode(frame(plain, serial: 9)) == hex("10 0d 00 04 4d 51 54 54 04 02 01 02 00 01 63"))
        var session = MQTT.Session(clientID: "", login: ("u", "p"), isClean: false)
        session.will = MQTT.Message(topic: "w", payload: "x", isRetained: true)
        let full = hex("10 18 00 04 4d 51 54 54 04 ec 00 3c 00 00 00 01 77 00 01 78 00 01 75 00 01 70")
        #expect(try encode(frame(.connect(session), serial: 9)) == full)
    }

    @Test func packetIDsAreAtTheOffsetsOfTheirTypes() throws {
        let first = MQTT.Message(topic: "a", payload: "b")
        #expect(try encode(frame(.publish(first), serial: 0x1234)) == hex("32 06 00 01 61 12 34 62"))
        let retained = MQTT.Message(topic: "a", payload: "", isAcknowledged: false, isRetained: true)
        #expect(try encode(frame(.publish(retained))) == hex("31 03 00 01 61"))
        #expect(try encode(frame(.subscribe(to: "#"), serial: 1)) == hex("82 06 00 01 00 01 23 01"))
        #expect(try encode(frame(.unsubscribe(from: "#"), serial: 65535)) == hex("a2 05 ff ff 00 01 23"))
        #expect(try encode(frame(Request(type: 0x40), serial: 7)) == hex("40 02 00 07"))
        let codec = MQTTCodec()
        #expect(try encode(try #require(codec.ping(number: 3))) == hex("c0 00"))
        #expect(try encode(try #require(codec.closingFrame())) == hex("e0 00"))
    }

    /// The examples of table 2.4: the smallest and the largest length of each size.
    @Test(arguments: [
        (127, "7f"), (128, "80 01"), (16_383, "ff 7f"), (16_384, "80 80 01"), (2_097_151, "ff ff 7f"),
        (2_097_152, "80 80 80 01"),
    ])
    func lengthsTakeOneToFourBytes(_ length: Int, _ expected: String) throws {
        var codec = MQTTCodec()
        codec.maximumLength = 3_000_000
        let message = MQTT.Message(
            topic: "t",
            payload: Bytes([UInt8](repeating: 7, count: length - 3)),
            isAcknowledged: false
        )
        let bytes = try encode(frame(.publish(message)), with: codec)
        #expect(Array(bytes.prefix(1 + hex(expected).count)) == [0x30] + hex(expected))
        #expect(try decode(bytes, with: codec).map { MQTT.Message(PushMessage($0)) } == message)
    }

    @Test func invalidFramesAreRefused() {
        let message = MQTT.Message(topic: "t", payload: "")
        var once = message
        once.isAcknowledged = false
        var nowhere = once
        nowhere.topic = "a/#"
        let long = MQTT.Message(topic: "t", payload: Bytes([UInt8](repeating: 0, count: 1 << 20)))
        let refused = [
            frame(.publish(message)), frame(.publish(once), serial: 5), frame(.publish(nowhere)),
            frame(.publish(long), serial: 5), frame(.subscribe(to: "#")), frame(Request(type: 0x40), serial: 65536),
            frame(Request(type: 0x34, body: message.payload), serial: 5), frame(Request(type: 0x90), serial: 5),
            frame(Request(type: 0x30, body: [9, 9, 9])),
        ]
        for frame in refused { #expect(throws: FrameError.self) { try encode(frame) } }
    }

    // MARK: Decoding

    @Test func connackAnswersTheConnectOfItsLink() throws {
        var codec = MQTTCodec()
        codec.noteSent(frame(.connect(MQTT.Session(clientID: "c")), serial: 77))
        #expect(try decode(hex("20 02 01 00"), with: codec) == Frame(.response, type: 0x20, serial: 77, body: [1, 0]))
        let refused = try decode(hex("20 02 00 05"), with: codec)
        #expect(refused?.isErrorResponse == true && refused?.status == 5 && refused?.serial == 77)
        #expect(throws: FrameError.self) { try decode(hex("20 02 00 00")) }
    }

    @Test func responsesAndMessagesHaveDifferentKinds() throws {
        #expect(try decode(hex("40 02 12 34")) == Frame(.response, type: 0x40, serial: 0x1234))
        #expect(try decode(hex("b0 02 00 01")) == Frame(.response, type: 0xB0, serial: 1))
        #expect(try decode(hex("90 03 00 01 01")) == Frame(.response, type: 0x90, serial: 1, status: 1, body: [1]))
        #expect(try decode(hex("90 04 00 01 80 00"))?.isErrorResponse == true)
        #expect(try decode(hex("d0 00"))?.kind == .pong)
        let push = try #require(try decode(hex("3b 07 00 01 61 00 09 62 63")))
        #expect(push.kind == .push && push.serial == 9)
        #expect(MQTT.Message(PushMessage(push)) == MQTT.Message(topic: "a", payload: "bc", isRetained: true))
    }

    @Test(arguments: [
        // Not sent by a server, or with reserved flags.
        "00", "10 00", "34 08", "36", "3e", "41 02 00 01", "50", "80", "f0 00",
        "30 80 00", "30 ff ff ff 80", "30 ff ff ff ff", "30 81 80 40",  // lengths
        "30 00", "30 01 00", "30 02 00 00", "30 03 00 02 61", "32 03 00 01 61", "32 05 00 01 61 00 00",  // PUBLISH
        "30 03 00 01 2b", "30 03 00 01 00", "30 03 00 01 ff",  // topics
        "40 00", "40 02 00 00", "40 03 00 01 00", "90 02 00 01", "90 03 00 01 02", "b0 03 00 01 00", "d0 01 00",
    ])
    func invalidPacketsAreRefused(_ text: String) throws {
        let bytes = hex(text)
        #expect(throws: FrameError.self) { try decode(bytes) }
    }

    @Test func anIncompletePacketIsNotDecoded() throws {
        let bytes = hex("32 85 01 00 01 61 00 09") + [UInt8](repeating: 1, count: 128)
        for length in 0..<bytes.count { #expect(try decode(Array(bytes[..<length])) == nil) }
        #expect(try decode(bytes)?.body.count == 131)
    }

    /// All packets except CONNACK, whose serial is not on the wire.
    @Test func theCodecConforms() {
        var codec = MQTTCodec()
        codec.maximumLength = 4096
        let samples: [CodecConformance.Sample] = [
            .init(frame(.publish(MQTT.Message(topic: "a/b", payload: "c")), serial: 1)),
            .init(frame(.publish(MQTT.Message(topic: "a/b", payload: "c", isAcknowledged: false)))),
            .init(frame(.subscribe(to: "a/#"), serial: 2)), .init(frame(.unsubscribe(from: "a/#"), serial: 3)),
            .init(Frame(.response, type: 0x40, serial: 65535)), .init(Frame(.response, type: 0xB0, serial: 3)),
            .init(Frame(.response, type: 0x90, serial: 2, status: 1, body: [1])),
            .init(Frame(.push, type: 0x33, serial: 9, body: "\0\u{1}ab")),
            .init(Frame(.push, type: 0x30, body: "\0\u{1}a")),
            .init(Frame(.ping, type: 0xC0)), .bytes(hex("d0 00"), are: [Frame(.pong, type: 0xD0)]),
            .refused(hex("30 81 40"), with: .illegalLength), .refused(hex("34"), with: .unknownType),
        ]
        var kit = CodecConformance(of: codec, samples: samples, maximumFrameSize: 4096 + 3)
        kit.bodiesAreOpaque = false
        kit.relaxed = MQTTCodec()
        let report = kit.check()
        #expect(report.violations.isEmpty, "\(report)")
    }

    /// Every change of one byte in a packet, and random bytes.
    @Test func invalidBytesNeverTrap() {
        let samples = ["20 02 00 00", "90 03 00 01 01", "32 07 00 01 61 00 09 62 63", "40 02 00 01", "d0 00"].map(hex)
        for sample in samples {
            for index in sample.indices {
                for byte in 0...255 as ClosedRange<UInt8> {
                    var bytes = sample
                    bytes[index] = byte
                    for codec in [MQTTCodec(), MQTTCodec().serverSide()] { _ = try? decodeAny(bytes, with: codec) }
                }
            }
        }
        var state: UInt64 = 42
        for _ in 0..<20_000 {
            let bytes = (0..<12).map { _ in
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                return UInt8(state >> 56)
            }
            for codec in [MQTTCodec(), MQTTCodec().serverSide()] { _ = try? decodeAny(bytes, with: codec) }
        }
    }

    private func decodeAny(_ bytes: [UInt8], with codec: any FrameCodec) throws -> Frame? {
        var codec = codec
        var input = ReceiveBuffer(bytes)
        let frame = try codec.decode(&input)
        if let frame, frame.kind == .push { _ = MQTT.Message(PushMessage(frame)) }
        return frame
    }
}
