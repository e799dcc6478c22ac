import Testing
import Trunkline
import TrunklineDiagnostics
import TrunklineTesting

/// The capture file of a real client's recording, as tshark and scapy read it.
@Suite(
    .tags(.realThreads),
    .serialized,
    .timeLimit(.minutes(5)),
    .enabled(if: ServerProcess.isAvailable("tshark"), "tshark is not installed")
)
struct CaptureInteropTests {}

extension CaptureInteropTests {
    private static let layout = FrameLayout {
        Field.constant(request: [0xca, 0xfe], response: [0xbe, 0xef])
        Field.type(UInt16.self)
        Field.length(width: 3, counting: .body, order: .littleEndian)
        Field.serial(UInt64.self, order: .littleEndian)
        Field.status(UInt16.self)
        Field.integer("version", UInt8.self, default: 3)
        Field.bytes("token", 6, default: [1, 2, 3, 4, 5, 6])
        Field.body
        Field.checksum(.crc32, over: .body)
    }
    .roles {
        $0.ping = 1
        $0.pong = 11
        $0.push = .types(2...9)
        $0.cancel = 10
    }

    private static let largeBody = 300_000

    /// Records a client with pings, pushes, a cancelled request, an error response, a request of several segments, one
    /// that is too large for a capture, and a link that the server resets.
    private static func record() async throws -> (recording: Recording, port: UInt16) {
        let server = try await LoopbackServer.start(speaking: layout) { request in
            switch request.type {
            case 0x411: .noReply
            case 0x412: .status(7, "no")
            case 0x413: .sequence([.push(Frame(.push, type: 2, body: "news")), .reply("done")])
            default: .echo
            }
        }
        let options = ClientOptions {
            $0.recorder = .ring()
            $0.recorder?.bodies = .types([0x413])
            $0.recorder?.fields = ["token"]
            $0.liveness.interval = .milliseconds(300)
            $0.liveness.deadline = .seconds(60)  // on a busy machine, the link must not be lost
            $0.reconnecting.policy = Backoff(base: .milliseconds(10), cap: .milliseconds(100))
        }
        let client = Client(to: server.endpoint, speaking: layout, options: options)
        func send(_ type: UInt32, _ count: Int = 5) async throws(ClientError) {
            _ = try await client.send(
                Request(type: type, body: Bytes(repeating: 7, count: count)),
                timeout: .seconds(60)
            )
        }
        try await send(0x410)
        await #expect(throws: ClientError.self) { try await send(0x412) }
        try await send(0x413)
        try await send(0x410, 60_000)
        try await send(0x410, largeBody)
        try await send(0x410, 0)
        let abandoned = client.start(Request(type: 0x411))
        try await server.wait(within: .seconds(60)) { $0.requests.contains { $0.type == 0x411 } }
        abandoned.cancel()
        _ = try? await abandoned.value
        try await server.waitForCancel(within: .seconds(60))
        try await server.ping()
        try await server.wait(within: .seconds(60)) { $0.pingCount > 0 }
        await server.disconnectAll(reset: true)
        // A request on the reset link would be lost. The client may have a new one already.
        while await client.metrics.connection.losses.isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        try await send(0x410, 9)
        await client.close()
        let recording = try #require(await client.diagnostics.recording)
        await server.stop()
        guard case .host(_, let port) = server.endpoint.target else { return (recording, 0) }
        return (recording, port)
    }

    /// What tshark shows of a frame, as far as the recording has it.
    private struct SeenFrame: Equatable, CustomStringConvertible {
        let time, kind, isToServer, type, serial, status, length, version: String
        var description: String { "\(time) \(kind) \(isToServer) \(type) \(serial) \(status) \(length) \(version)" }
    }

    @Test func tsharkSeesTheRecordedFramesAndEvents() async throws {
        let (recording, port) = try await Self.record()
        let capture = recording.pcapng(speaking: Self.layout)
        func tshark(_ arguments: [String]) async throws -> [String] {
            try await Tool.tshark(arguments, capture, Self.layout, port: port)
        }

        let fields = [
            "frame.time_epoch", "acme.kind", "tcp.dstport", "acme.type", "acme.serial", "acme.status", "acme.length",
            "acme.version",
        ]
        let lines = try await tshark(["-Y", "acme", "-T", "fields"] + fields.flatMap { ["-e", $0] })
        let seen = lines.map { line in
            let values = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
            return SeenFrame(
                time: values[0],
                kind: values[1],
                isToServer: "\(values[2] == "\(port)")",
                type: Self.number(values[3]),
                serial: values[4],
                status: Self.number(values[5]),
                length: values[6],
                version: Self.number(values[7])
            )
        }
        let expected = Self.frames(of: recording)
        #expect(seen == expected)
        #expect(
            Set(seen.map(\.kind)).isSuperset(of: [
                "request", "response", "error response", "push", "ping", "pong", "cancel",
            ])
        )

        // Both links are connections from their beginning to their end.
        let syn = try await tshark([
            "-Y", "tcp.flags.syn == 1 && tcp.flags.ack == 0", "-T", "fields", "-e", "tcp.stream",
        ])
        #expect(syn == ["0", "1"])
        let reset = try await tshark(["-Y", "tcp.flags.reset == 1", "-T", "fields", "-e", "tcp.stream"])
        #expect(reset == ["0"])
        #expect(try await tshark(["-Y", "tcp.flags.fin == 1 && tcp.stream == 1"]).count == 2)

        // tshark finds nothing wrong: no checksum, no lost or repeated segment, no malformed packet.
        let wrong =
            "ip.checksum.status == 0 || tcp.checksum.status == 0 || udp.checksum.status == 0"
            + " || tcp.analysis.flags || _ws.malformed || acme.bad_length"
        let checks = ["ip", "tcp", "udp"].flatMap { ["-o", "\($0).check_checksum:TRUE"] }
        #expect(try await tshark(checks + ["-Y", wrong]) == [])

        // Every event is a comment, and those that are no segment of a link are log messages too.
        let comments = try await tshark(["-Y", "frame.comment", "-T", "fields", "-e", "frame.comment"])
        let events = recording.entries.compactMap { entry -> String? in
            guard case .event(let event) = entry.content else { return nil }
            return ([event.name] + event.fields.map { "\($0.name)=\($0.value)" }).joined(separator: " ")
        }
        #expect(events.count > 5)
        for event in events { #expect(comments.contains { $0.contains(event) }, "\(event)") }
        let messages = try await tshark(["-Y", "syslog", "-T", "fields", "-e", "_ws.col.Info"])
        #expect(messages.contains { $0.contains("trunkline: request.cancelled id=") })
    }

    /// Another reader finds the same packets, times and sizes, and computes the same checksums.
    @Test(.enabled(if: Tool.hasPythonModule("scapy"), "scapy is not installed"))
    func scapySeesTheSamePackets() async throws {
        let (recording, port) = try await Self.record()
        let capture = recording.pcapng(speaking: Self.layout)
        let program = """
            import sys
            from scapy.layers.inet import IP, TCP, UDP
            from scapy.utils import PcapNgReader

            for packet in PcapNgReader(sys.argv[1]):
                inner = packet[TCP] if TCP in packet else packet[UDP]
                nanoseconds = int(packet.time * 1000000000)
                if packet.wirelen == len(packet.original):
                    fresh = packet.copy()
                    del fresh[IP].chksum
                    del fresh[type(inner)].chksum
                    assert bytes(fresh) == packet.original, "checksum"
                print(f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09}", packet.src, packet.dst, inner.sport, inner.dport,
                    packet.wirelen, len(packet.original), len(inner.payload), sep="\\t")
            """
        let packets = try await Tool.python(program, capture)
        let fields = [
            "frame.time_epoch", "ip.src", "ip.dst", "tcp.srcport", "udp.srcport", "tcp.dstport", "udp.dstport",
            "frame.len", "frame.cap_len", "tcp.len", "udp.length",
        ]
        let arguments = ["-T", "fields"] + fields.flatMap { ["-e", $0] }
        let lines = try await Tool.tshark(arguments, capture, Self.layout, port: port)
        let seen = lines.map { line in
            let values = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
            let isTCP = values[4].isEmpty
            let (size, captured) = (Int(values[7]) ?? 0, Int(values[8]) ?? 0)
            let payload = isTCP ? Int(values[9]) ?? 0 : (Int(values[10]) ?? 0) - 8
            let ports = isTCP ? [values[3], values[5]] : [values[4], values[6]]
            return (Array(values[0...2]) + ports + ["\(size)", "\(captured)", "\(payload - (size - captured))"])
                .joined(separator: "\t")
        }
        #expect(packets == seen)
        #expect(packets.count > 20)

        // The payloads are what the codec writes for frames of the recorded sizes.
        let overhead = 28
        let sizes: [Int] = Self.frames(of: recording, includingLarge: true).map { overhead + (Int($0.length) ?? 0) }
        var sent = 0
        for packet in packets {
            let values: [Substring] = packet.split(separator: "\t")
            if values[4] != "514" { sent += Int(values[7]) ?? 0 }
        }
        #expect(sent == sizes.map { $0 > 69_632 ? 65_536 : $0 }.reduce(0, +))
    }

    /// The frames of a recording as tshark shows them. Those that are too large for a capture are left out by default.
    private static func frames(of recording: Recording, includingLarge: Bool = false) -> [SeenFrame] {
        let start = recording.start ?? .zero
        return recording.entries.compactMap { entry in
            let (header, isToServer): (Recording.Header, Bool)
            switch entry.content {
            case .sent(let sent): (header, isToServer) = (sent, true)
            case .received(let received): (header, isToServer) = (received, false)
            default: return nil
            }
            guard header.bodyCount < largeBody || includingLarge else { return nil }
            let (seconds, attoseconds) = (start + entry.time).components
            let digits = String(1_000_000_000 + attoseconds / 1_000_000_000).dropFirst()
            let version = header.fields.first { $0.name == "version" }.map { "\($0.value)" }
            return SeenFrame(
                time: "\(seconds).\(digits)",
                kind: header.isErrorResponse ? "error response" : "\(header.kind)",
                isToServer: "\(isToServer)",
                type: "\(header.type)",
                serial: "\(header.serial)",
                status: "\(header.status)",
                length: "\(header.bodyCount)",
                version: version == "number(3)" || version == nil ? "3" : version ?? ""
            )
        }
    }

    /// A number that may be hexadecimal, in decimal.
    private static func number(_ text: String) -> String {
        text.hasPrefix("0x") ? UInt64(text.dropFirst(2), radix: 16).map { "\($0)" } ?? text : text
    }
}
