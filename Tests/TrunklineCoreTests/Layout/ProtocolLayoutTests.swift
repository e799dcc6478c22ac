import SampleLayouts
import Testing
import Trunkline

@testable import TrunklineLayouts

struct MemcachedByKindTests {
    // The examples of BinaryProtocolRevamped, as in `MemcachedLayoutTests`.
    @Test func publishedExamplesAreReadAndWritten() throws {
        var request = Frame(.request, type: 0, serial: 0x32, body: "Hello")
        request["keyLength"] = 5
        #expect(try Protocols.memcached.encoded(request) == MemcachedLayoutTests.get)
        let server = Protocols.memcached.serverSide()
        let seen = try #require(server.decoded(MemcachedLayoutTests.get).frames.first)
        #expect(seen.kind == .request && seen["keyLength"] == 5 && seen["vbucket"] == 0)
        let answers = MemcachedLayoutTests.found + MemcachedLayoutTests.notFound
        let frames = try Protocols.memcached.decoded(answers).frames
        #expect(frames.map(\.kind) == [.response, .response] && frames.map(\.isErrorResponse) == [false, true])
        #expect(frames[0]["vbucket"] == nil && frames[1].status == 1)
        #expect(try frames.flatMap { try server.encoded($0) } == answers)
    }

    @Test func theResponseToANoOperationIsAPong() throws {
        let ping = hex("80 0a 0000 00 00 0000 00000000 00000000 0000000000000000")
        let pong = hex("81 0a 0000 00 00 0000 00000000 00000000 0000000000000000")
        #expect(!Protocols.memcached.pongsLookLikePings)
        #expect(try Protocols.memcached.encoded(Frame(.ping)) == ping)
        #expect(try Protocols.memcached.decoded(pong).frames.map(\.kind) == [.pong])
        let server = Protocols.memcached.serverSide()
        #expect(try server.decoded(ping).frames.map(\.kind) == [.ping])
        #expect(try server.encoded(Frame(.pong)) == pong)
    }

    @Test func anUnknownMagicIsRefused() {
        #expect(Protocols.memcached.refusal(of: replacing(0, in: MemcachedLayoutTests.found)) == .unknownType)
    }
}

struct ModbusLayoutTests {
    // The PDUs are the examples of the Application Protocol Specification V1.1b3, sections 6.3 and 7.
    static let request = hex("1501 0000 0006 ff 03 006b 0003")
    static let response = hex("1501 0000 0009 ff 03 06 022b 0000 0064")
    static let exception = hex("1502 0000 0003 ff 81 02")

    @Test func requestAndResponseHaveThePublishedBytes() throws {
        let frame = Frame(.request, type: 3, serial: 0x1501, body: Bytes(hex("006b 0003")))
        #expect(try Protocols.modbus.encoded(frame) == Self.request)
        let seen = try #require(Protocols.modbus.serverSide().decoded(Self.request).frames.first)
        #expect(seen.kind == .request && seen.type == 3 && seen["unit"] == 0xFF && seen.body == frame.body)
        let response = try #require(Protocols.modbus.decoded(Self.response).frames.first)
        #expect(response.kind == .response && !response.isErrorResponse && response.serial == 0x1501)
        #expect(response.body == Bytes(hex("06 022b 0000 0064")))
        #expect(try Protocols.modbus.serverSide().encoded(response) == Self.response)
        #expect(Protocols.modbus.matching == .serial(0...0xffff))
    }

    @Test func anExceptionIsAnErrorResponseWithTheTypeOfItsRequest() throws {
        let exception = try #require(Protocols.modbus.decoded(Self.exception).frames.first)
        #expect(exception.type == 1 && exception.isErrorResponse && exception.body == [2])
        #expect(exception.status == 2 && exception.description.contains("status 2"))
        let server = Protocols.modbus.serverSide()
        #expect(try server.encoded(exception) == Self.exception)
        // The status becomes the body if the body is empty. Otherwise the two must agree.
        let made = Frame(.response, type: 1, serial: 0x1502, status: 2, isErrorResponse: true)
        #expect(try server.encoded(made) == Self.exception)
        #expect(
            server.refusal(of: Frame(.response, type: 1, status: 3, isErrorResponse: true, body: [2])) == .malformed
        )
        #expect(server.refusal(of: Frame(.response, type: 1, status: 256, isErrorResponse: true)) == .malformed)
        let bare = try #require(Protocols.modbus.decoded(hex("1502 0000 0002 ff 81")).frames.first)
        #expect(bare.isErrorResponse && bare.status == 0)
    }

    @Test func aFailureCodeRequiresTheRoleFailureAndNoStatusField() {
        let layout = FrameLayout {
            Field.serial(UInt16.self)
            Field.type(UInt8.self)
            Field.length(UInt16.self, counting: .body)
            Field.body
        }
        #expect(throws: LayoutError.self) { try layout.validatingRoles { $0.failureCode = .body(UInt8.self) } }
        #expect(throws: LayoutError.self) {
            try Protocols.smpp.validatingRoles { ($0.failure, $0.failureCode) = (.bit(30), .body(UInt8.self)) }
        }
        let tooWide = #expect(throws: LayoutError.self) {
            try layout.validatingRoles { ($0.failure, $0.failureCode) = (.bit(7), .body(UInt64.self)) }
        }
        #expect(tooWide?.message == "it can be 1 to 4 bytes wide, not 8")
    }

    @Test func invalidFramesAreRefused() {
        #expect(Protocols.modbus.refusal(of: hex("1501 0001")) == .unexpectedBytes)
        #expect(Protocols.modbus.refusal(of: hex("1501 0000 0001")) == .illegalLength)
        #expect(Protocols.modbus.refusal(of: hex("1501 0000 00fe")) == nil)
        #expect(Protocols.modbus.refusal(of: hex("1501 0000 00ff")) == .illegalLength)
        #expect(Protocols.modbus.refusal(of: Frame(.request, type: 0x83)) == .unknownType)
        let long = Bytes([UInt8](repeating: 0, count: 253))
        #expect(Protocols.modbus.refusal(of: Frame(.request, type: 3, body: long)) == .illegalLength)
    }
}

struct DNSLayoutTests {
    // RFC 1035 shows no bytes. These follow its section 4: example.com, type A, class IN.
    static let query = hex("001d 1234 0100 0001 0000 0000 0000 076578616d706c6503636f6d00 0001 0001")
    static let answer = hex("001d 1234 8180 0001 0000 0000 0000 076578616d706c6503636f6d00 0001 0001")

    @Test func queryAndAnswerDifferByOneBit() throws {
        let frame = Frame(.request, serial: 0x1234, body: Bytes(Self.query.dropFirst(6)))
        #expect(try Protocols.dns.encoded(frame) == Self.query)
        let seen = try #require(Protocols.dns.serverSide().decoded(Self.query).frames.first)
        #expect(seen.kind == .request && seen.serial == 0x1234 && seen["flags"] == 0x0100)
        let answer = try #require(Protocols.dns.decoded(Self.answer).frames.first)
        #expect(answer.kind == .response && answer["flags"] == 0x8180 && answer.body == frame.body)
        var reply = Frame(.response, serial: 0x1234, body: frame.body)
        reply["flags"] = 0x0180
        #expect(try Protocols.dns.serverSide().encoded(reply) == Self.answer)
    }

    /// The response for a name that does not exist used to be a success, and the caller had to read its flags.
    @Test func theResultCodeIsTheStatusOfAnErrorResponse() throws {
        let unknown = hex("000c 1234 8183 0000 0000 0000 0000")
        let answer = try #require(Protocols.dns.decoded(unknown).frames.first)
        #expect(answer.isErrorResponse && answer.status == 3 && answer.kind == .response)
        let reply = Frame(.response, serial: 0x1234, status: 3, isErrorResponse: true, body: answer.body)
        #expect(try Protocols.dns.serverSide().encoded(reply) == hex("000c 1234 8103 0000 0000 0000 0000"))
    }

    /// For a query too long for the length field, and for one too short, the message used to say that a frame may have
    /// 16,777,216 bytes.
    @Test func aLengthErrorNamesTheLimitThatIsExceeded() {
        let long = Frame(.request, body: Bytes(repeating: 0, count: 65_532))
        #expect(
            Protocols.dns.complaint(about: long)
                == "the body has 65532 bytes, not within 8–65531; the length field holds at most 65535"
        )
        #expect(
            Protocols.dns.complaint(about: Frame(.request, body: "short"))
                == "the body has 5 bytes, not within 8–65531; a body has at least 8 bytes in this layout"
        )
        #expect(
            Protocols.dns.message(of: hex("000b"))
                == "the length is 11, not within 12–65535; a body has at least 8 bytes in this layout"
        )
        #expect(
            Protocols.modbus.message(of: hex("1501 0000 00ff"))
                == "the length is 255, not within 2–254; a frame has at most 260 bytes (maximumFrameSize)"
        )
        #expect(
            Protocols.modbus.message(of: hex("1501 0000 0001"))
                == "the length is 1, not within 2–254; a length is at least 2 in this layout"
        )
        let sized = FrameLayout {
            Field.length(UInt32.self, counting: .body)
            Field.body(sizes: 0...9)
        }
        #expect(
            sized.message(of: hex("0000000a"))
                == "the length is 10, not within 0–9; a body has at most 9 bytes in this layout"
        )
    }

    @Test func aQueryFromTheServerIsAPush() throws {
        #expect(try Protocols.dns.decoded(Self.query).frames.map(\.kind) == [.push])
    }

    @Test func aMessageWithoutItsCountsIsRefused() {
        #expect(Protocols.dns.refusal(of: hex("0003")) == .illegalLength)
        #expect(Protocols.dns.refusal(of: hex("0004")) == .missingBody)
        #expect(Protocols.dns.refusal(of: hex("000b")) == .illegalLength)
        #expect(Protocols.dns.refusal(of: hex("000c")) == nil)
        #expect(Protocols.dns.refusal(of: Frame(.request)) == .missingBody)
        #expect(Protocols.dns.refusal(of: Frame(.request, body: "short")) == .illegalLength)
    }
}
