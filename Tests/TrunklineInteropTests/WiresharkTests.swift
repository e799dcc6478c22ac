import Foundation
import Testing
import Trunkline

/// Runs the dissector that a layout prints in tshark, over captures written by hand.
@Suite(.tags(.realThreads), .serialized, .enabled(if: ServerProcess.isAvailable("tshark"), "tshark is not installed"))
struct WiresharkTests {}

extension WiresharkTests {
    private static let layout = FrameLayout {
        Field.constant(request: [0xca, 0xfe], response: [0xbe, 0xef])
        Field.type(UInt16.self)
        Field.length(width: 3, counting: .rest, order: .littleEndian)
        Field.serial(UInt64.self, order: .littleEndian)
        Field.status(UInt16.self)
        Field.integer("version", UInt8.self, default: 3)
        Field.body
        Field.checksum(.crc32, over: .body)
        Field.type(UInt16.self)
    }
    .roles {
        $0.ping = 1
        $0.push = .types(2...9)
        $0.cancel = 10
    }
    .namingRequests([0x410: "GetUser"])

    // Magic, type, length, serial, status, version, body, CRC-32 of the body, type.
    private static let request = hex("cafe 0410 160000 0000000000000010 0000 03 68656c6c6f 3610a686 0410")
    private static let ping = hex("cafe 0001 110000 0500000000000000 0000 03 00000000 0001")
    private static let errorResponse = hex("beef 0410 130000 0000000000000010 0007 03 6e6f 67aa281f 0410")
    private static let push = hex("beef 0002 120000 0000000000000000 0000 03 21 9e6bffd3 0002")
    private static let impossible = hex("cafe 0001 010000")

    /// Pieces of the two streams, each in its own packet.
    private static let pieces: [Capture.Piece] = [
        // A request in three segments, split in its length and behind it. The third segment also has a ping.
        .toServer(Array(request[..<5])),
        .toServer(Array(request[5..<9])),
        .toServer(Array(request[9...]) + ping),
        // Two frames share a segment. The second frame ends in the next segment.
        .toClient(errorResponse + push.prefix(20)),
        .toClient(Array(push[20...])),
        .toServer(impossible),
    ]

    @Test(.timeLimit(.minutes(5)))
    func tsharkJoinsAndNamesEveryFrame() async throws {
        let info = try await Self.run(["-T", "fields", "-e", "frame.number", "-e", "acme.kind", "-e", "acme.serial"])
        #expect(
            info.filter { !$0.hasSuffix("\t\t") } == [
                "3\trequest,ping\t1152921504606846976,5", "4\terror response\t1152921504606846976", "5\tpush\t0",
            ]
        )
        let columns = try await Self.run(["-T", "fields", "-e", "_ws.col.Info"])
        #expect(columns.contains { $0.contains("request type 0x410 (GetUser) serial 1152921504606846976") })
        #expect(columns.contains { $0.contains("error response type 0x410 serial 1152921504606846976 status 7") })
        #expect(columns.last?.contains("illegal length") == true)
    }

    @Test(.timeLimit(.minutes(5)))
    func tsharkShowsEveryField() async throws {
        let lines = try await Self.run(["-V", "-O", "acme", "-Y", "acme.kind == \"request\""])
        let start = try #require(lines.firstIndex { $0.hasPrefix("acme: request") })
        #expect(
            lines[start...].dropFirst().prefix(10).map { $0.trimmingCharacters(in: .whitespaces) } == [
                "constant: cafe", "type: 0x0410 (1040)", "length: 22 (0x000016)",
                "serial: 1152921504606846976 (0x1000000000000000)", "status: 0 (0x0000)", "version: 3 (0x03)",
                "body: 68656c6c6f", "crc32: 0x3610a686", "type: 0x0410 (1040)", "[kind: request]",
            ]
        )
    }

    /// A length of varying width moves every field behind it, and marks, not types, determine the kinds of frames.
    @Test(.timeLimit(.minutes(5)))
    func tsharkFollowsLengthsOfVaryingWidthAndMarks() async throws {
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
        // Kind, length, flags, token, body, serial, more: 307 bytes after a length of two.
        let long = hex("00 b302 0000 aabb") + [UInt8](repeating: 0x78, count: 300) + hex("0032 00")
        let pieces: [Capture.Piece] = [
            .toServer(Array(long[..<2])),
            .toServer(Array(long[2...])),
            .toClient(hex("01 08 0000 aabb 61 0032 01") + hex("01 07 0000 aabb 0032 00")),
            .toClient(hex("01 07 0002 aabb 0033 00") + hex("02 07 0000 aabb 0000 00") + hex("09 07 0000 aabb 0000 00")),
            .toServer(hex("00 ffffffffffffffffffffff")),
        ]
        let arguments = ["-T", "fields", "-e", "acme.kind", "-e", "acme.serial", "-e", "acme.length"]
        let lines = try await Self.run(arguments, layout, pieces)
        #expect(
            lines == [
                "\t\t", "request\t50\t307", "part,response\t50,50\t8,7", "error response,push,unknown\t51,0,0\t7,7,7",
                "\t\t",
            ]
        )
        let columns = try await Self.run(["-T", "fields", "-e", "_ws.col.Info"], layout, pieces)
        #expect(columns.last?.contains("illegal length") == true)
    }

    /// A bit of the type field marks a response, as in SMPP, and is not part of the type.
    @Test(.timeLimit(.minutes(5)))
    func tsharkDistinguishesRequestsFromResponsesByABit() async throws {
        let layout = FrameLayout {
            Field.length(UInt32.self, counting: .wholeFrame)
            Field.type(UInt32.self)
            Field.status(UInt32.self)
            Field.serial(UInt32.self)
            Field.body
        }
        .roles {
            $0.ping = 0x15
            $0.push = 5
            $0.response = .bit(31)
            $0.goAway = 6
            $0.requests = 1...0x100
        }
        func frame(_ type: String, _ status: String, _ serial: String) -> [UInt8] {
            hex("00000010 \(type) 000000\(status) 000000\(serial)")
        }
        let pieces: [Capture.Piece] = [
            .toServer(frame("00000004", "00", "01") + frame("00000015", "00", "02")),
            .toClient(frame("80000004", "58", "01") + frame("80000015", "00", "02")),
            .toClient(frame("00000005", "00", "07") + frame("00000006", "00", "08") + frame("00000015", "00", "09")),
            .toServer(frame("80000005", "00", "07") + frame("00000999", "00", "0a")),
        ]
        let lines = try await Self.run(["-T", "fields", "-e", "_ws.col.Info"], layout, pieces)
        #expect(
            lines.map { $0.trimmingCharacters(in: .whitespaces) } == [
                "request type 0x4 serial 1; ping type 0x15 serial 2",
                "error response type 0x4 serial 1 status 88; pong type 0x15 serial 2 status 0",
                "push type 0x5 serial 7 status 0; goAway type 0x6 serial 8 status 0; ping type 0x15 serial 9 status 0",
                "response type 0x5 serial 7; unknown type 0x999 serial 10",
            ]
        )
    }

    /// The lines that tshark prints for a capture of `pieces`, with the layout's dissector and `arguments`.
    private static func run(
        _ arguments: [String],
        _ layout: FrameLayout = layout,
        _ pieces: [Capture.Piece] = pieces
    ) async throws -> [String] {
        try await Tool.tshark(arguments, Capture.bytes(of: pieces, port: 9000), layout, port: 9000)
    }
}

/// The bytes of a capture file: IPv4 and TCP between 10.0.0.1 and a server on 10.0.0.2, without checksums.
private enum Capture {
    enum Piece {
        case toServer([UInt8])
        case toClient([UInt8])
    }

    /// The pcap file format: a header of 24 bytes, then every packet with its time and size. 101 is raw IP.
    static func bytes(of pieces: [Piece], port: UInt16) -> [UInt8] {
        let header =
            little(0xa1b2_c3d4, 4) + little(2, 2) + little(4, 2) + little(0, 8) + little(65535, 4) + little(101, 4)
        var sent = (toServer: 1000, toClient: 5000)
        return pieces.enumerated().reduce(into: header) { file, item in
            let packet: [UInt8]
            switch item.element {
            case .toServer(let bytes):
                let segment = segment(from: 40000, to: Int(port), sequence: sent.toServer, after: sent.toClient, bytes)
                packet = ip(from: 1, to: 2, segment)
                sent.toServer += bytes.count
            case .toClient(let bytes):
                let segment = segment(from: Int(port), to: 40000, sequence: sent.toClient, after: sent.toServer, bytes)
                packet = ip(from: 2, to: 1, segment)
                sent.toClient += bytes.count
            }
            file += little(item.offset, 4) + little(0, 4) + little(packet.count, 4) + little(packet.count, 4) + packet
        }
    }

    /// RFC 9293, section 3.1: 20 bytes of header with the flags PSH and ACK.
    private static func segment(from: Int, to: Int, sequence: Int, after: Int, _ bytes: [UInt8]) -> [UInt8] {
        big(from, 2) + big(to, 2) + big(sequence, 4) + big(after, 4) + [0x50, 0x18] + big(65535, 2) + big(0, 4) + bytes
    }

    /// RFC 791, section 3.1: 20 bytes of header, protocol 6.
    private static func ip(from: UInt8, to: UInt8, _ bytes: [UInt8]) -> [UInt8] {
        [0x45, 0] + big(20 + bytes.count, 2) + big(0, 2) + big(0x4000, 2) + [64, 6] + big(0, 2)
            + [10, 0, 0, from, 10, 0, 0, to] + bytes
    }

    private static func little(_ value: Int, _ width: Int) -> [UInt8] { big(value, width).reversed() }

    private static func big(_ value: Int, _ width: Int) -> [UInt8] {
        (0..<width).reversed().map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }
}

/// The bytes of hexadecimal `digits`. Other characters are ignored.
private func hex(_ digits: String) -> [UInt8] {
    let values = digits.compactMap(\.hexDigitValue)
    return stride(from: 0, to: values.count, by: 2).map { UInt8(values[$0] * 16 + values[$0 + 1]) }
}
