import Testing
import Trunkline

/// Layouts that several tests use.
enum Layouts {
    static let acme = FrameLayout {
        Field.constant([0xCA, 0xFE])
        Field.type(UInt16.self)
        Field.serial(UInt32.self)
        Field.length(UInt32.self, counting: .body)
        Field.body
        Field.checksum(.adler32, over: .body)
    }
    .roles {
        $0.ping = 0
        $0.push = 1
        $0.cancel = 2
        $0.serials = 50...
    }

    /// Adler-32 and a repeated type. Requests have a status, as responses do.
    static let checked = FrameLayout {
        Field.type(UInt32.self)
        Field.serial(UInt32.self)
        Field.status(UInt32.self)
        Field.length(UInt32.self, counting: .body)
        Field.body
        Field.checksum(.adler32, over: .body)
        Field.type(UInt32.self)
    }
    .roles {
        $0.ping = 0
        $0.push = 1
        $0.cancel = 2
        $0.success = 200
        $0.serials = 50...
    }

    static let memcached = FrameLayout {
        Field.constant(request: [0x80], response: [0x81])
        Field.type(UInt8.self)
        Field.integer("keyLength", UInt16.self)
        Field.integer("extrasLength", UInt8.self)
        Field.reserved(1)
        Field.status(UInt16.self)
        Field.length(UInt32.self, counting: .body)
        Field.serial(UInt32.self)
        Field.integer("cas", UInt64.self)
        Field.body
    }
    .roles { $0.ping = 0x0a }

    /// Every unusual feature at once: odd widths, little-endian, numbers after the body, a checksum before it.
    static let odd = FrameLayout {
        Field.checksum(.crc32, over: .body, order: .littleEndian)
        Field.length(width: 3, counting: .wholeFrame, order: .littleEndian)
        Field.serial(width: 5)
        Field.integer("flags", UInt16.self, default: 0x0102, order: .littleEndian)
        Field.body
        Field.constant([0xEE])
        Field.type(width: 3)
        Field.serial(width: 5, order: .littleEndian)
        Field.checksum(.adler32, over: .headerAndBody)
    }
    .roles { $0.serials = 0...0xff_ffff_ffff }

    /// A header of variable size with everything it may contain, and marks in addition to the type.
    static let varint = FrameLayout {
        Field.kind(UInt8.self, [.request: 1, .response: 2, .push: 3])
        Field.varintLength(counting: .wholeFrame, order: .bigEndian)
        Field.constant([0xB0])
        Field.type(UInt8.self)
        Field.serial(UInt32.self)
        Field.integer("flags", UInt16.self)
        Field.type(UInt8.self)
        Field.bytes("token", 3, default: [1, 2, 3])
        Field.body
        Field.checksum(.crc32, over: .headerAndBody)
    }
    .roles {
        $0.part = .bit(3, of: "flags")
        $0.goAway = .bit(4, of: "flags")
        $0.failure = .bit(15, of: "flags")
    }
}

struct StandardLayoutTests {
    static let vector = hex("00000402 00000401 00000008 7b226d73223a317d")

    @Test func requestBecomesTheSpecifiedBytes() throws {
        let frame = Frame(.request, type: 0x402, serial: 0x401, body: #"{"ms":1}"#)
        #expect(try FrameLayout.standard.encoded(frame) == Self.vector)
    }

    @Test func specifiedBytesAreAResponseToTheClientAndARequestToTheServer() throws {
        let body: Bytes = #"{"ms":1}"#
        let response = try FrameLayout.standard.decoded(Self.vector)
        #expect(response.frames == [Frame(.response, type: 0x402, serial: 0x401, body: body)])
        #expect(response.left == 0)
        let request = try FrameLayout.standard.serverSide().decoded(Self.vector)
        #expect(request.frames == [Frame(.request, type: 0x402, serial: 0x401, body: body)])
    }

    @Test func standardIsAnArgumentForAnyCodecParameter() {
        func matching(of codec: some FrameCodec) -> ResponseMatching { codec.matching }
        #expect(matching(of: .standard) == .serial(50...0xffff_ffff))
    }

    @Test func heartbeatAndCancelHaveTheTypesOfTheirRoles() throws {
        #expect(try FrameLayout.standard.encoded(Frame(.ping)) == hex("00000001 00000000 00000000"))
        let cancel = try #require(FrameLayout.standard.cancelFrame(for: 0x33, type: 0x402))
        #expect(cancel == Frame(.cancel, type: 0x401, serial: 0x33))
        #expect(try FrameLayout.standard.encoded(cancel) == hex("00000401 00000033 00000000"))
        #expect(try FrameLayout.standard.encoded(Frame(.cancel, serial: 0x33)) == hex("00000401 00000033 00000000"))
    }

    @Test(arguments: [
        (UInt32(0), Frame.Kind.response, Frame.Kind.request), (1, .ping, .ping), (2, .push, .request),
        (0x400, .push, .request), (0x401, .cancel, .cancel), (0x402, .response, .request),
        (0x403, .response, .request), (0x404, .part, .part), (0x405, .response, .request),
        (0xffff_ffff, .response, .request),
    ])
    func typeDeterminesTheKind(type: UInt32, client: Frame.Kind, server: Frame.Kind) throws {
        // As a response, because a layout checks the types of requests.
        let bytes = try FrameLayout.standard.encoded(Frame(.response, type: type))
        #expect(try FrameLayout.standard.decoded(bytes).frames == [Frame(client, type: type)])
        let serverSide = FrameLayout.standard.serverSide()
        #expect(try serverSide.decoded(bytes).frames == [Frame(server, type: type)])
        #expect(try ProtocolCodec(serverSide).serverSide().decoded(bytes).frames == [Frame(server, type: type)])
    }

    /// The specified bytes in both directions: alone, and with a required body, which takes the slow path.
    @Test func partsHaveTheirOwnType() throws {
        let bytes = hex("00000404 00000033 00000002 6162 00000403 00000033 00000001 63")
        let update = hex("00000405 00000033 00000004 00010000")
        let piece = Frame(.part, type: 0x404, serial: 0x33, body: "ab")
        for client in [FrameLayout.standard, .standard.requiringBody(inResponsesTo: 0x402...0x402)] {
            let end = Frame(.response, type: 0x403, serial: 0x33, body: "c")
            let server = client.serverSide()
            #expect(try server.encoded(piece) + server.encoded(end) == bytes)
            #expect(server.refusal(of: Frame(.part, type: 0x403, serial: 0x33)) == .unknownType)
            // The client would take such a response for a part, and the caller would wait for the rest.
            #expect(server.refusal(of: Frame(.response, type: 0x404, serial: 0x33)) == .unknownType)
            #expect(try client.decoded(bytes).frames == [piece, end])
        }
        let client = FrameLayout.standard
        let end = Frame(.request, type: 0x403, serial: 0x33, body: "c")
        #expect(try client.encoded(piece) + client.encoded(end) == bytes)
        #expect(try client.encoded(Frame(.part, serial: 0x33, body: "ab")) == Array(bytes.prefix(14)))
        #expect(client.refusal(of: Frame(.part, type: 0x403, serial: 0x33)) == .unknownType)
        #expect(try client.serverSide().decoded(bytes).frames == [piece, end])
        var (input, frames) = (ReceiveBuffer(bytes), [Frame]())
        var fast = client
        try fast.decodeAll(&input, into: &frames)
        #expect(frames.map(\.kind) == [.part, .response])
        let body = Bytes([0, 1, 0, 0])
        #expect(try FrameLayout.standard.encoded(Frame(.request, type: 0x405, serial: 0x33, body: body)) == update)
        #expect(FrameLayout.standard.isWindowUpdate(Frame(.request, type: 0x405)))
        #expect(!FrameLayout.standard.isWindowUpdate(Frame(.request, type: 0x403)))
    }

    @Test func smallAndLargeBodiesAreEncodedAndDecoded() throws {
        for size in [0, 1, 4095, 4096, 100_000] {
            let body = Bytes((0..<size).map { UInt8(truncatingIfNeeded: $0) })
            let frame = Frame(.response, type: 0x410, serial: 7, body: body)
            let bytes = try FrameLayout.standard.encoded(frame)
            #expect(bytes.count == 12 + size)
            #expect(try FrameLayout.standard.decoded(bytes).frames == [frame])
        }
    }
}

struct DeclaredLayoutTests {
    @Test func acmeFrameHasItsConstantAndChecksum() throws {
        // Adler-32 of "abc": a = 1+97+98+99 = 0x127, b = 98+196+295 = 0x24d.
        let bytes = hex("cafe 0007 00000032 00000003 616263 024d0127")
        #expect(try Layouts.acme.encoded(Frame(.request, type: 7, serial: 50, body: "abc")) == bytes)
        #expect(try Layouts.acme.decoded(bytes).frames == [Frame(.response, type: 7, serial: 50, body: "abc")])
        #expect(Layouts.acme.matching == .serial(50...0xffff_ffff))
    }

    @Test func pushIsOneTypeOrARange() throws {
        let pushes = Layouts.acme.roles { $0.push = .types(3...4) }
        for (type, kind) in [(2, Frame.Kind.response), (3, .push), (4, .push), (5, .response)] {
            let bytes = try pushes.encoded(Frame(.response, type: UInt32(type)))
            #expect(try pushes.decoded(bytes).frames.map(\.kind) == [kind])
        }
        let open = Layouts.acme.roles { $0.push = .types(0xfff0...) }
        #expect(try open.decoded(open.encoded(Frame(.push, type: 0xffff))).frames.map(\.kind) == [.push])
    }

    @Test func checkedFrameRepeatsItsType() throws {
        let bytes = hex("00000003 00000032 000000c8 00000003 616263 024d0127 00000003")
        let frame = Frame(.response, type: 3, serial: 50, status: 200, body: "abc")
        #expect(try Layouts.checked.serverSide().encoded(frame) == bytes)
        #expect(try Layouts.checked.decoded(bytes).frames == [frame])
        let empty = hex("00000000 00000000 00000000 00000000 00000001 00000000")
        #expect(try Layouts.checked.encoded(Frame(.ping)) == empty)
        #expect(try Layouts.checked.decoded(empty).frames == [Frame(.ping)])
    }

    @Test func statusOtherThanSuccessIsAnErrorResponse() throws {
        let refused = hex("00000003 00000032 00000194 00000000 00000001 00000003")
        let response = try #require(Layouts.checked.decoded(refused).frames.first)
        #expect(response.status == 404 && response.isErrorResponse && response.kind == .response)
        let request = try #require(Layouts.checked.serverSide().decoded(refused).frames.first)
        #expect(!request.isErrorResponse && request.status == 404)
        let ranged = Layouts.checked.roles { $0.success = .statuses(200...404) }
        #expect(try ranged.decoded(refused).frames.map(\.isErrorResponse) == [false])
    }

    @Test func checksumAndRepetitionMismatchesHaveDifferentCodes() {
        let bytes = hex("00000003 00000032 000000c8 00000003 616263 024d0127 00000003")
        #expect(Layouts.checked.refusal(of: replacing(17, in: bytes)) == .checksumMismatch)
        #expect(Layouts.checked.refusal(of: replacing(20, in: bytes)) == .checksumMismatch)
        #expect(Layouts.checked.refusal(of: replacing(26, in: bytes)) == .repetitionMismatch)
        #expect(Layouts.checked.refusal(of: replacing(0, in: bytes)) == .repetitionMismatch)
    }

    @Test func wrongConstantIsRefusedAsSoonAsItsByteArrives() {
        #expect(Layouts.acme.refusal(of: hex("ca")) == nil)
        #expect(Layouts.acme.refusal(of: hex("cb")) == .unexpectedBytes)
        #expect(Layouts.acme.refusal(of: hex("caff")) == .unexpectedBytes)
        #expect(Layouts.acme.refusal(of: hex("caff 0007 00000032 00000003 616263 024d0127")) == .unexpectedBytes)
    }

    @Test func fieldsOfEveryWidthAndOrderAreAtTheirOffsets() throws {
        // CRC-32 of "123456789" is the algorithm's published check value, 0xcbf43926.
        let head = hex("2639f4cb 240000 0000000007 0201 313233343536373839 ee 012345 0700000000")
        let covered = try #require(Checksum.adler32.value(of: Bytes(head.prefix(14 + 9))))
        let bytes = head + (0..<4).map { UInt8(truncatingIfNeeded: covered >> (24 - 8 * $0)) }
        var frame = Frame(.response, type: 0x012345, serial: 7, body: "123456789")
        #expect(try Layouts.odd.encoded(frame) == bytes)
        frame["flags"] = 0x0102
        #expect(try Layouts.odd.decoded(bytes).frames == [frame])
        #expect(Layouts.odd.refusal(of: replacing(0, in: bytes)) == .checksumMismatch)
        #expect(Layouts.odd.refusal(of: replacing(13, in: bytes)) == .checksumMismatch)
        #expect(Layouts.odd.refusal(of: replacing(23, in: bytes)) == .unexpectedBytes)
        #expect(Layouts.odd.refusal(of: replacing(27, in: bytes)) == .repetitionMismatch)
        #expect(Layouts.odd.matching == .serial(0...0xff_ffff_ffff))
    }

    @Test func repetitionBeforeTheBodyIsCheckedBeforeTheBodyArrives() {
        let layout = FrameLayout {
            Field.type(UInt8.self)
            Field.type(UInt8.self)
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        #expect(layout.refusal(of: hex("07 07 09")) == nil)
        #expect(layout.refusal(of: hex("07 08 09")) == .repetitionMismatch)
        #expect(layout.matching == .inOrder)
        #expect(layout.cancelFrame(for: 1, type: 7) == nil)
    }

    @Test(arguments: [
        (LengthCount.body, UInt8(3)), (.body.plus(4), 7), (.wholeFrame, 10), (.rest, 7), (.rest.plus(-1), 6),
        (.body.plus(-1), 2),
    ])
    func lengthCountsTheDeclaredBytes(count: LengthCount, value: UInt8) throws {
        let layout = FrameLayout {
            Field.reserved(2)
            Field.length(UInt8.self, counting: count)
            Field.serial(UInt16.self)
            Field.body
            Field.reserved(2)
        }
        let bytes = hex("0000") + [value] + hex("0005 616263 0000")
        #expect(try layout.encoded(Frame(.request, serial: 5, body: "abc")) == bytes)
        #expect(try layout.decoded(bytes).frames == [Frame(.response, serial: 5, body: "abc")])
    }

    /// The caller of such a request would wait in vain: the client would take the response for another kind of frame.
    @Test(arguments: [UInt32(1), 2, 0x400, 0x401])
    func aRequestWithTheTypeOfAnotherRoleIsRefused(type: UInt32) {
        #expect(FrameLayout.standard.refusal(of: Frame(.request, type: type)) == .unknownType)
    }

    @Test func aPushWithoutAPushTypeIsRefused() {
        #expect(FrameLayout.standard.serverSide().refusal(of: Frame(.push, type: 1)) == .unknownType)
        #expect(FrameLayout.standard.serverSide().refusal(of: Frame(.push, type: 2)) == nil)
    }

    @Test func valuesWithoutAFieldAreRefused() {
        #expect(FrameLayout.standard.refusal(of: Frame(.response, type: 0x410, isErrorResponse: true)) == .malformed)
        var frame = Frame(.request, type: 0x410)
        frame["cas"] = 1
        #expect(FrameLayout.standard.refusal(of: frame) == .malformed)
    }

    @Test func numbersThatDoNotFitAreRefused() {
        #expect(Layouts.acme.refusal(of: Frame(.request, type: 0x10000)) == .unknownType)
        #expect(Layouts.acme.refusal(of: Frame(.request, type: 7, serial: 1 << 32)) == .malformed)
        #expect(Layouts.memcached.refusal(of: Frame(.request, status: 0x10000)) == .malformed)
        var frame = Frame(.request)
        frame["extrasLength"] = 256
        #expect(Layouts.memcached.refusal(of: frame) == .malformed)
        #expect(Layouts.memcached.refusal(of: Frame(.cancel)) == .unknownType)
    }
}

struct MemcachedLayoutTests {
    // The examples of memcached's "BinaryProtocolRevamped": Get "Hello" and its two answers, with opaque 0x32.
    static let get = hex("80 00 0005 00 00 0000 00000005 00000032 0000000000000000 48656c6c6f")
    static let found = hex("81 00 0000 04 00 0000 00000009 00000032 0000000000000001 deadbeef 576f726c64")
    static let notFound = hex("81 00 0000 00 00 0001 00000009 00000032 0000000000000000 4e6f7420666f756e64")

    @Test func requestHasItsLengthsAndKey() throws {
        var request = Frame(.request, type: 0, serial: 0x32, body: "Hello")
        request["keyLength"] = 5
        #expect(try Layouts.memcached.encoded(request) == Self.get)
        request["extrasLength"] = 0
        request["cas"] = 0
        let seen = try #require(Layouts.memcached.serverSide().decoded(Self.get).frames.first)
        #expect(seen.kind == .request && seen["keyLength"] == 5 && seen["extrasLength"] == 0 && seen["cas"] == 0)
        #expect(seen == request)
    }

    @Test func responseHasItsExtrasAndCas() throws {
        let frames = try Layouts.memcached.decoded(Self.found + Self.notFound).frames
        let (found, missing) = (frames[0], frames[1])
        #expect(found.kind == .response && !found.isErrorResponse && found.serial == 0x32)
        #expect(found["extrasLength"] == 4 && found["cas"] == 1 && found["keyLength"] == 0)
        #expect(found.body == Bytes(hex("deadbeef 576f726c64")))
        #expect(missing.isErrorResponse && missing.status == 1 && missing.body == "Not found")
        #expect(try Layouts.memcached.serverSide().encoded(found) == Self.found)
        #expect(try Layouts.memcached.serverSide().encoded(missing) == Self.notFound)
    }

    @Test func magicOfTheOtherDirectionIsRefused() {
        #expect(Layouts.memcached.refusal(of: Self.get) == .unexpectedBytes)
        #expect(Layouts.memcached.serverSide().refusal(of: Self.found) == .unexpectedBytes)
    }

    @Test func noOperationIsThePing() throws {
        let ping = hex("80 0a 0000 00 00 0000 00000000 00000000 0000000000000000")
        #expect(try Layouts.memcached.encoded(Frame(.ping)) == ping)
        #expect(try Layouts.memcached.serverSide().decoded(ping).frames.map(\.kind) == [.ping])
    }
}

/// `bytes` with every bit of one byte inverted.
func replacing(_ index: Int, in bytes: [UInt8]) -> [UInt8] {
    var bytes = bytes
    bytes[index] ^= 0xff
    return bytes
}
