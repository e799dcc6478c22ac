import Testing

/// A capture file in the pcapng format, as a reader that knows nothing of its writer understands it.
struct CaptureFile {
    struct Malformed: Error, CustomStringConvertible {
        let description: String
    }

    struct Packet {
        let nanoseconds: UInt64
        let bytes: [UInt8]
        let size: Int
        let comments: [String]
        let isOutbound: Bool?

        var isTCP: Bool { bytes[9] == 6 }
        var source: [UInt8] { Array(bytes[12..<16]) }
        var destination: [UInt8] { Array(bytes[16..<20]) }
        var sourcePort: UInt64 { big(20, 2) }
        var destinationPort: UInt64 { big(22, 2) }
        var sequence: UInt64 { big(24, 4) }
        var acknowledged: UInt64 { big(28, 4) }
        /// The names of the flags, such as "PA".
        var flags: String {
            let bits = zip("FSRPA", 0..<5).filter { bytes[33] >> $0.1 & 1 == 1 }
            return String(bits.map(\.0))
        }
        private var payloadStart: Int { 20 + (isTCP ? Int(bytes[32] >> 4) * 4 : 8) }
        var payload: [UInt8] { Array(bytes[payloadStart...]) }
        var payloadSize: Int { size - payloadStart }

        /// Checks the lengths and, unless the packet was cut off, the checksums.
        func check() throws {
            try require(bytes[0] == 0x45 && big(2, 2) == size, "IP header or length")
            try require(sum(Array(bytes[..<20])) == 0xFFFF, "checksum of IP")
            guard bytes.count == size else { return }
            let pseudo = source + destination + [0, bytes[9]] + [UInt8((size - 20) >> 8), UInt8((size - 20) & 0xFF)]
            try require(sum(pseudo + bytes[20...]) == 0xFFFF, "checksum of TCP or UDP")
            if !isTCP { try require(big(24, 2) == size - 20, "length of UDP") }
        }

        private func big(_ offset: Int, _ width: Int) -> UInt64 {
            bytes[offset..<offset + width].reduce(0) { $0 << 8 | UInt64($1) }
        }

        private func sum(_ bytes: [UInt8]) -> Int {
            var sum = 0
            for (index, byte) in bytes.enumerated() { sum += Int(byte) << (index % 2 == 0 ? 8 : 0) }
            while sum > 0xFFFF { sum = sum & 0xFFFF + sum >> 16 }
            return sum
        }
    }

    private(set) var application: String?
    private(set) var comments: [String] = []
    private(set) var linkType = 0
    private(set) var timeResolution = 6
    private(set) var packets: [Packet] = []

    init(_ file: [UInt8]) throws {
        var offset = 0
        var blockTypes: [Int] = []
        while offset < file.count {
            try require(offset + 12 <= file.count, "the header of a block")
            let (type, length) = (little(file, offset, 4), little(file, offset + 4, 4))
            try require(length % 4 == 0 && length >= 12 && offset + length <= file.count, "the length of a block")
            try require(little(file, offset + length - 4, 4) == length, "the second length of a block")
            try add(type, Array(file[offset + 8..<offset + length - 4]))
            blockTypes.append(type)
            offset += length
        }
        try require(
            blockTypes.prefix(2) == [0x0A0D_0D0A, 1] && blockTypes.dropFirst(2).allSatisfy { $0 == 6 },
            "order"
        )
    }

    private mutating func add(_ type: Int, _ body: [UInt8]) throws {
        switch type {
        case 0x0A0D_0D0A:
            try require(little(body, 0, 4) == 0x1A2B_3C4D && little(body, 4, 2) == 1, "byte order or version")
            let options = try options(of: body[16...])
            application = options[4]?.first.map { String(decoding: $0, as: UTF8.self) }
            comments = texts(options[1])
        case 1:
            linkType = little(body, 0, 2)
            timeResolution = try options(of: body[8...])[9]?.first?.first.map(Int.init) ?? 6
        case 6:
            let (captured, size) = (little(body, 12, 4), little(body, 16, 4))
            try require(little(body, 0, 4) == 0 && captured <= size, "interface or lengths")
            let end = 20 + (captured + 3) / 4 * 4
            let options = try options(of: body[end...])
            let packet = Packet(
                nanoseconds: UInt64(little(body, 4, 4)) << 32 | UInt64(little(body, 8, 4)),
                bytes: Array(body[20..<20 + captured]),
                size: size,
                comments: texts(options[1]),
                isOutbound: options[2]?.first.map { $0[0] == 2 }
            )
            try packet.check()
            packets.append(packet)
        default: throw Malformed(description: "a block of type \(type)")
        }
    }

    private func options(of bytes: ArraySlice<UInt8>) throws -> [Int: [[UInt8]]] {
        var options: [Int: [[UInt8]]] = [:]
        var rest = Array(bytes)
        while !rest.isEmpty {
            try require(rest.count >= 4, "the header of an option")
            let (code, length) = (little(rest, 0, 2), little(rest, 2, 2))
            if code == 0 {
                try require(length == 0 && rest.count == 4, "the end of options")
                return options
            }
            try require(rest.count >= 4 + (length + 3) / 4 * 4, "the length of an option")
            options[code, default: []].append(Array(rest[4..<4 + length]))
            rest.removeFirst(4 + (length + 3) / 4 * 4)
        }
        throw Malformed(description: "options do not end")
    }

    private func texts(_ options: [[UInt8]]?) -> [String] {
        (options ?? []).map { String(decoding: $0, as: UTF8.self) }
    }
}

private func require(_ condition: Bool, _ what: String) throws {
    if !condition { throw CaptureFile.Malformed(description: "wrong: \(what)") }
}

private func little(_ bytes: [UInt8], _ offset: Int, _ width: Int) -> Int {
    bytes[offset..<offset + width].reversed().reduce(0) { $0 << 8 | Int($1) }
}
