import Testing

@testable import TrunklineCore
@testable import TrunklineDiagnostics
@testable import TrunklineIO
@testable import TrunklineLayouts

/// Capture files of recordings.
struct CaptureTests {
    private static let layout = FrameLayout {
        Field.constant([0xCA, 0xFE])
        Field.type(UInt16.self)
        Field.serial(UInt32.self)
        Field.status(UInt16.self)
        Field.integer("version", UInt8.self, default: 3)
        Field.bytes("token", 4)
        Field.length(UInt32.self, counting: .body)
        Field.body
        Field.checksum(.crc32, over: .body)
    }
    .roles {
        $0.ping = 1
        $0.push = 2
        $0.cancel = 3
    }

    /// A recording with these lines behind the first.
    private static func recording(_ lines: String, start: String? = "1795560000.123456789") throws -> Recording {
        let start = start.map { ",\"start\":\"\($0)\"" } ?? ""
        return try Recording(jsonLines: "{\"recording\":1\(start),\"complete\":true}\n\(lines)")
    }

    private static func capture(
        _ lines: String,
        speaking codec: some FrameCodec = layout,
        port: UInt16? = nil
    ) throws -> CaptureFile {
        try CaptureFile(recording(lines).pcapng(speaking: codec, port: port))
    }

    private static let ready = """
        {"t":0.001,"event":"connection.connecting","endpoint":"10.1.2.3:7001","attempt":1}
        {"t":0.002,"event":"connection.ready","endpoint":"10.1.2.3:7001","session":1}

        """

    @Test func theHeaderNamesTheFormat() throws {
        let file = try Self.capture("")
        #expect(file.application == "Trunkline" && file.linkType == 101 && file.timeResolution == 9)
        #expect(file.packets.isEmpty && file.comments.count == 1)
        let partial = try Recording(jsonLines: "{\"recording\":1,\"complete\":false}")
        #expect(try CaptureFile(partial.pcapng(speaking: Self.layout)).comments.count == 2)
    }

    @Test func aLinkIsAConnectionWithItsFrames() throws {
        let file = try Self.capture(
            Self.ready + """
                {"t":0.003,"sent":"request","session":1,"id":1,"type":1026,"serial":7,"bytes":5,\
                "fields":{"version":4,"token":{"bytes":4}}}
                {"t":0.004000001,"received":"response","session":1,"type":1026,"serial":7,"status":9,\
                "error":true,"bytes":2,"body":"6f6b"}
                """
        )
        let packets = file.packets
        #expect(packets.map(\.flags) == ["S", "SA", "A", "PA", "PA"])
        #expect(packets.map(\.isOutbound) == [true, false, true, true, false])
        let times: [UInt64] = [1_000_000, 2_000_000, 2_000_000, 3_000_000, 4_000_001]
        #expect(packets.map(\.nanoseconds) == times.map { 1_795_560_000_123_456_789 + $0 })
        #expect(packets[0].source == [10, 0, 0, 1] && packets[0].destination == [10, 1, 2, 3])
        #expect(packets[0].destinationPort == 7001 && packets[1].sourcePort == 7001)

        var request = Frame(.request, type: 1026, serial: 7, body: Bytes(repeating: 0, count: 5))
        request["version"] = 4
        request[bytes: "token"] = [0, 0, 0, 0]
        #expect(packets[3].payload == (try Self.layout.encoded(request)))
        let response = Frame(.response, type: 1026, serial: 7, status: 9, isErrorResponse: true, body: "ok")
        #expect(packets[4].payload == (try Self.layout.serverSide().encoded(response)))
        #expect(packets[4].comments.isEmpty)
        expectContinuity(packets)
    }

    /// Each segment begins where the last one of its side ended, and acknowledges everything of the other side.
    private func expectContinuity(_ packets: [CaptureFile.Packet]) {
        for (_, packets) in Dictionary(
            grouping: packets.filter(\.isTCP),
            by: { Set([$0.sourcePort, $0.destinationPort]) }
        ) {
            var next: [Bool: UInt64] = [:]
            for packet in packets {
                let side = packet.isOutbound == true
                #expect(next[side] == nil || next[side] == packet.sequence)
                if packet.flags.contains("A"), let other = next[!side] { #expect(packet.acknowledged == other) }
                let counted = packet.flags.contains("S") || packet.flags.contains("F") ? 1 : 0
                next[side] = packet.sequence + UInt64(packet.payloadSize + counted)
            }
        }
    }

    @Test func withoutAStartTimesCountFromZero() throws {
        let recording = try Self.recording("{\"t\":1.5,\"event\":\"connection.idle\"}", start: nil)
        #expect(try CaptureFile(recording.pcapng(speaking: Self.layout)).packets.map(\.nanoseconds) == [1_500_000_000])
    }

    /// The recording begins in the middle: no event names the link.
    @Test func aLinkWithoutItsBeginningIsEstablishedBeforeItsFirstFrame() throws {
        let line = "{\"t\":9,\"received\":\"push\",\"session\":4,\"type\":2,\"bytes\":1}"
        let packets = try Self.capture(line).packets
        #expect(packets.map(\.flags) == ["S", "SA", "A", "PA"])
        #expect(packets[0].destination == [10, 0, 0, 2] && packets[0].destinationPort == 7000)
        #expect(try Self.capture(line, port: 99).packets[0].destinationPort == 99)
        let named = line + "\n{\"t\":10,\"event\":\"link.draining\",\"endpoint\":\"a.example:81\",\"session\":4}"
        #expect(try Self.capture(named).packets[0].destinationPort == 81)
    }

    @Test func largeFramesAreSplitAndCut() throws {
        let file = try Self.capture(
            """
            {"t":1,"sent":"request","session":1,"id":1,"type":1026,"serial":1,"bytes":60000}
            {"t":2,"sent":"request","session":1,"id":2,"type":1026,"serial":2,"bytes":1000000,"body":"0102"}
            {"t":3,"sent":"request","session":1,"id":3,"type":1026,"serial":3,"bytes":1}
            {"t":4,"sent":"request","session":1,"id":3,"type":1026,"serial":3,"bytes":4000000000}
            """
        )
        let packets = Array(file.packets.dropFirst(3))
        let whole = packets.prefix(2)
        let request = Frame(.request, type: 1026, serial: 1, body: Bytes(repeating: 0, count: 60000))
        #expect(whole.map(\.payloadSize) == [32768, 60023 - 32768])
        #expect(whole.flatMap(\.payload) == (try Self.layout.encoded(request)))

        let cut = packets.dropFirst(2).prefix { $0.nanoseconds == packets[2].nanoseconds }
        #expect(cut.reduce(0) { $0 + $1.payloadSize } == 1_000_023)
        #expect(cut.map(\.payload.count) == [32768, 32768] + [Int](repeating: 0, count: cut.count - 2))
        #expect(
            cut.first?.comments == ["captured to 65536 of 1000023 bytes: request type 0x402 serial 2 (1000000 bytes)"]
        )
        #expect(packets[packets.count - 2].payloadSize == 24)
        #expect(packets.last?.payloadSize == 0)
        #expect(packets.last?.comments.first?.contains("4000000000 bytes are too many") == true)
        expectContinuity(packets)
    }

    /// A recorder of 1 MiB may hold 26,000 frames of 64 KiB. A quarter of the room is for small frames.
    @Test func theSizeOfTheFileIsLimited() throws {
        func line(_ size: Int) -> String {
            "{\"t\":1,\"sent\":\"request\",\"session\":1,\"type\":1026,\"serial\":1,\"bytes\":\(size)}\n"
        }
        let recording = try Self.recording(line(20000) + line(20000) + line(900) + line(20000))
        let packets = try CaptureFile(recording.pcapng(speaking: Self.layout, room: 30_000)).packets.dropFirst(3)
        #expect(packets.map(\.payload.count) == [20023, 0, 923, 0])
        #expect(packets.map(\.payloadSize) == [20023, 0, 923, 0])
        #expect(
            packets.flatMap(\.comments)
                == Array(
                    repeating: "not captured: request type 0x402 serial 1 (20000 bytes): the capture has no room left",
                    count: 2
                )
        )
        expectContinuity(Array(packets))
        // In the end, small frames do not fit either.
        let small = try Self.recording(String(repeating: line(900), count: 50))
        let captured = try CaptureFile(small.pcapng(speaking: Self.layout, room: 30_000)).packets.dropFirst(3)
        #expect(captured.count { $0.payloadSize == 923 } == 32)
        #expect(captured.count { $0.payloadSize == 0 } == 18)
    }

    /// What a recording declares counts, not what is captured of it: 10 GB would be encoded, and 300,000 packets made.
    @Test(.timeLimit(.minutes(1))) func declaredBytesCount() throws {
        let body = "{\"t\":1,\"sent\":\"request\",\"session\":1,\"type\":1026,\"serial\":1,\"bytes\":10000000}\n"
        let field = "{\"t\":1,\"received\":\"push\",\"session\":1,\"type\":2,\"fields\":{\"a\":{\"bytes\":60000000}}}\n"
        let recording = try Self.recording(String(repeating: body + field, count: 1000))
        let file = recording.pcapng(speaking: Self.layout, room: 100_000_000)
        #expect(file.count < 1_000_000)
    }

    /// Regression: a name of more than 64 KiB ended the process, as a range with its bounds exchanged.
    @Test(arguments: [64, 65, 65_536, 65_537], [10, 65_536, 70_000])
    func namesOfAnyLengthAreAccepted(_ length: Int, bodySize: Int) throws {
        let codec = DelimitedCodec(delimiter: "\n", maximumFrameSize: 100_000).namingRequests { request in
            String(request.body).split(separator: " ").first.map(String.init)
        }
        let name = String(repeating: "n", count: length)
        let line = """
            {"t":1,"sent":"request","session":1,"id":1,"type":0,"serial":1,"bytes":\(bodySize),"name":"\(name)"}
            {"t":2,"sent":"request","session":1,"id":2,"type":0,"serial":2,"bytes":8,"name":"GET"}

            """
        let packets = try Self.capture(line, speaking: codec).packets
        #expect(packets.contains { String(Bytes($0.payload)).hasPrefix("GET     ") })
        let isNamed = packets.contains { String(Bytes($0.payload)).hasPrefix(name) }
        #expect(isNamed == (length == 64 && (length...65_536).contains(bodySize)))
    }

    /// Servers on every port that a client could have.
    @Test(.timeLimit(.minutes(1))) func serversMayHaveEveryPortOfClients() throws {
        let lines = (49152...65535).map {
            "{\"t\":1,\"event\":\"connection.ready\",\"endpoint\":\"a:\($0)\",\"session\":\($0)}\n"
        }
        let packets = try Self.capture(lines.joined()).packets.filter { $0.flags == "S" }
        #expect(Set(packets.map(\.sourcePort)).count == 16384)
        // One port is free.
        let others = try Self.capture(lines.dropFirst().joined()).packets.filter { $0.flags == "S" }
        #expect(Set(others.map(\.sourcePort)) == [49152])
    }

    /// Attempts that never end, each at an endpoint of its own; and links that are found by their endpoint.
    @Test(.timeLimit(.minutes(1))) func attemptsTakeLinearTime() throws {
        let count = 40_000
        let begins = (1...count).map {
            "{\"t\":1,\"event\":\"connection.connecting\",\"endpoint\":\"a\($0):1\",\"attempt\":\($0)}\n"
        }
        let ends = (1...count).map {
            "{\"t\":2,\"event\":\"connection.ready\",\"endpoint\":\"a\($0):1\",\"session\":\($0)}\n"
        }
        let file = try Self.recording(begins.joined() + ends.joined()).pcapng(speaking: Self.layout)
        let packets = try CaptureFile(file).packets
        #expect(packets.count { $0.flags == "S" } == count)
        #expect(packets.count { $0.flags == "SA" } == count)
    }

    @Test(
        arguments: [
            ("closedByServer", "server", "SFA CFA SA"), ("goAway", "server", "SFA CFA SA"), ("reset", "network", "SRA"),
            ("halfOpen", "client", "CRA"), ("closedLocally", "client", "CFA SFA CA"), ("timedOut", "network", "CRA"),
            ("anotherCause", "client", "CRA"),
        ]
    )
    func aLinkEndsByItsCause(cause: String, party: String, flags: String) throws {
        let event =
            "{\"t\":5,\"event\":\"link.ended\",\"endpoint\":\"10.1.2.3:7001\",\"phase\":\"ready\","
            + "\"cause\":\"\(cause)\",\"ended_by\":\"\(party)\",\"session\":1,\"attempt\":1}"
        let ending = try Self.capture(Self.ready + event).packets.dropFirst(3)
        #expect(ending.map { ($0.isOutbound == true ? "C" : "S") + $0.flags }.joined(separator: " ") == flags)
        let line =
            "link.ended endpoint=10.1.2.3:7001 phase=ready cause=\(cause) ended_by=\(party) session=1 attempt=1"
        #expect(ending.first?.comments == [line])
        #expect(ending.dropFirst().flatMap(\.comments) == [])
    }

    @Test func failedAttemptsAreConnectionsOfTheirOwn() throws {
        let lines = """
            {"t":1,"event":"connection.resolving","endpoint":"db:7000","attempt":1}
            {"t":2,"event":"connection.connecting","endpoint":"db:7000","attempt":1}
            {"t":3,"event":"attempt.failed","endpoint":"db:7000","phase":"connecting","cause":"refused",\
            "session":1,"attempt":1}
            {"t":4,"event":"connection.waiting","delay":0.5,"attempt":2,"cause":"refused"}
            {"t":5,"event":"connection.connecting","endpoint":"db:7000","attempt":2}
            {"t":6,"event":"connection.resolving","endpoint":"db:7000","attempt":2}
            {"t":7,"event":"connection.connecting","endpoint":"db:7000","attempt":2}
            {"t":8,"event":"connection.handshaking","endpoint":"db:7000","attempt":2}
            {"t":9,"sent":"request","session":2,"type":1026,"serial":1,"bytes":1}
            {"t":10,"event":"connection.ready","endpoint":"db:7000","session":2}
            {"t":11,"event":"attempt.failed","endpoint":"db:7000","phase":"resolving","cause":"nameResolution",\
            "session":3,"attempt":1}
            """
        let packets = try Self.capture(lines).packets
        #expect(
            packets.map { $0.isTCP ? $0.flags : "log" } == [
                "log", "S", "RA", "log", "S", "log", "log", "SA", "A", "PA", "log", "log",
            ]
        )
        let ports = packets.map { $0.isOutbound == false ? $0.destinationPort : $0.sourcePort }
        #expect(ports == [514, 49152, 49152, 514, 49153, 514, 49153, 49153, 49153, 49153, 49153, 514])
        let seconds = packets.map { ($0.nanoseconds - 1_795_560_000_123_456_789) / 1_000_000_000 }
        #expect(seconds == [1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 10, 11])
        // Every event is a comment.
        #expect(packets.flatMap(\.comments).count == 10)
        #expect(packets[3].comments == ["connection.waiting delay=0.5 attempt=2 cause=refused"])
        #expect(String(decoding: packets[3].payload, as: UTF8.self) == "<134>trunkline: " + packets[3].comments[0])
        #expect(packets[8].comments == ["connection.handshaking endpoint=db:7000 attempt=2"])
        expectContinuity(packets)
    }

    @Test func theFailureOfARequestNamesItsPacket() throws {
        let packets = try Self.capture(
            Self.ready + """
                {"t":1,"sent":"request","session":1,"id":9,"type":1026,"serial":50,"bytes":0}
                {"t":2,"event":"request.failed","id":9,"duration":1.5,"code":"timedOut","message":"deadline exceeded"}
                """
        ).packets
        #expect(packets[4].sourcePort == packets[3].sourcePort)
        #expect(
            packets[4].comments == [
                "request.failed id=9 duration=1.5 code=timedOut message=\"deadline exceeded\"",
                "the request was sent in packet 4: type 0x402 serial 50",
            ]
        )
    }

    @Test func framesThatCannotBeEncodedAreEmptySegments() throws {
        let packets = try Self.capture(
            """
            {"t":1,"received":"response","session":1,"type":1026,"serial":1,"bytes":3,"malformed":true}
            {"t":2,"sent":"goAway","session":1,"type":9}
            {"t":3,"sent":"request","session":1,"type":1026,"serial":2}
            """
        ).packets.dropFirst(3)
        #expect(packets.map(\.flags) == ["PA", "PA", "PA"])
        #expect(packets.map { $0.payload.isEmpty } == [true, true, false])
        #expect(
            packets.flatMap(\.comments) == [
                "not captured: response type 0x402 serial 1 (3 bytes): the received frame was malformed",
                "not captured: goAway type 0x9 serial 0 (0 bytes): the layout has no role for goAway frames",
            ]
        )
    }

    @Test func recordedBytesArePadded() throws {
        let packets = try Self.capture(
            """
            {"t":1,"sent":"request","session":1,"type":1026,"serial":2,"bytes":4,"body":"0102","fields":{"token":"0a"}}
            """
        ).packets
        var frame = Frame(.request, type: 1026, serial: 2, body: [1, 2, 0, 0])
        frame[bytes: "token"] = [10, 0, 0, 0]
        #expect(packets.last?.payload == (try Self.layout.encoded(frame)))
    }

    /// The serial number is within the body, and the server side of the codec differs.
    @Test func codecsWithTheirOwnRulesEncodeTheirFrames() throws {
        let codec = LengthPrefixedCodec(UInt16.self).serial(at: 0, UInt32.self)
        let packets = try Self.capture(
            """
            {"t":1,"sent":"request","session":1,"serial":2,"bytes":6}
            {"t":2,"received":"response","session":1,"serial":2,"bytes":4}
            """,
            speaking: codec
        ).packets
        #expect(packets[3].payload == hex("0006 00000002 0000"))
        #expect(packets[4].payload == hex("0004 00000002"))
    }

    /// What the client decodes from the capture is what it decoded when it was recorded.
    @Test func framesWithMarksAreEncodedAsTheyWereReceived() throws {
        let layout = FrameLayout {
            Field.kind(UInt8.self, [.request: 0, .response: 1, .push: 2])
            Field.varintLength(counting: .rest)
            Field.integer("flags", UInt16.self, order: .littleEndian)
            Field.bytes("token", 2)
            Field.body
            Field.serial(UInt16.self)
            Field.integer("more", UInt8.self)
        }
        .roles {
            $0.part = .field("more", 1...)
            $0.failure = .bit(9, of: "flags")
        }
        let received = [
            hex("01 08 0000 0000 00 0032 01"), hex("01 07 0000 0000 0032 00"), hex("01 07 0002 0000 0033 00"),
            hex("02 07 0000 0000 0000 00"),
        ]
        let lines = try received.map { bytes in
            let frame = try #require(layout.decoded(bytes).frames.first)
            let error = frame.isErrorResponse ? ",\"error\":true" : ""
            return """
                {"t":1,"received":"\(frame.kind)","session":1,"serial":\(frame.serial),"status":\(frame.status),\
                "bytes":\(frame.body.count)\(error),"fields":{"flags":\(frame["flags"] ?? 0),\
                "token":{"bytes":2},"more":\(frame["more"] ?? 0)}}

                """
        }
        let packets = try Self.capture(lines.joined(), speaking: layout).packets.dropFirst(3)
        #expect(packets.map(\.payload) == received)
    }

    /// Each side of each link has a codec of its own, which learns what was sent.
    @Test func everyLinkHasFreshCodecs() throws {
        let packets = try Self.capture(
            """
            {"t":1,"sent":"request","session":1}
            {"t":2,"received":"response","session":1}
            {"t":3,"sent":"request","session":1}
            {"t":4,"sent":"request","session":2}
            """,
            speaking: CountingCodec()
        ).packets.filter { $0.flags == "PA" }
        #expect(packets.map(\.payload) == [[0], [0], [1], [0]])
    }

    /// A port of a server would make a dissector take requests for responses.
    @Test func clientsHaveNoPortOfAServer() throws {
        let ready = (1...3).map {
            "{\"t\":\($0),\"event\":\"connection.ready\",\"endpoint\":\"127.0.0.1:\(49151 + $0)\",\"session\":\($0)}\n"
        }
        let packets = try Self.capture(ready.joined()).packets.filter { $0.flags == "S" }
        #expect(packets.map(\.sourcePort) == [49155, 49156, 49157])
        #expect(packets.map(\.destinationPort) == [49152, 49153, 49154])
        #expect(packets[0].destination == [127, 0, 0, 1])
    }

    @Test func longTextsAreCut() throws {
        let text = String(repeating: "é", count: 40_000)
        let packets = try Self.capture("{\"t\":1,\"event\":\"request.refused\",\"message\":\"\(text)\"}").packets
        #expect(
            packets[0].comments[0].utf8.count < 60_001 && packets[0].comments[0].hasPrefix("request.refused message=é")
        )
    }
}

/// Encodes the number of frames that it was told were sent.
private struct CountingCodec: SentFrameCodec {
    private var count: UInt8 = 0
    var matching: ResponseMatching { .inOrder }
    mutating func noteSent(_ frame: Frame) { count += 1 }
    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { nil }
    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) { output.append(count) }
}
