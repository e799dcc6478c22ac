import SampleLayouts
import Testing
import Trunkline

struct SMPPLayoutTests {
    // The bind_transmitter that the specification gives as an example of encoding.
    static let bind = hex(
        """
        0000002f 00000002 00000000 00000001 534d50503354455354 00 7365637265743038 00 5355424d495431 00 00 01 01 00
        """
    )
    static let bound = hex("0000001a 80000002 00000000 00000001 534d50503354455354 00")

    @Test func requestHasThePublishedBytesAndItsResponseHasItsType() throws {
        let frame = Frame(.request, type: 2, serial: 1, body: Bytes(Self.bind.dropFirst(16)))
        #expect(try Protocols.smpp.encoded(frame) == Self.bind)
        #expect(try Protocols.smpp.serverSide().decoded(Self.bind).frames == [frame])
        let bound = Frame(.response, type: 2, serial: 1, body: "SMPP3TEST\0")
        #expect(try Protocols.smpp.decoded(Self.bound).frames == [bound])
        #expect(try Protocols.smpp.serverSide().encoded(bound) == Self.bound)
    }

    @Test func aGenericNackIsAnErrorResponse() throws {
        let frame = try #require(Protocols.smpp.decoded(hex("00000010 80000000 00000003 00000007")).frames.first)
        #expect(frame.kind == .response && frame.isErrorResponse && frame.status == 3 && frame.serial == 7)
    }

    @Test func pingsAndPongsDifferByTheResponseBit() throws {
        let ping = hex("00000010 00000015 00000000 00000001")
        let pong = hex("00000010 80000015 00000000 00000001")
        #expect(!Protocols.smpp.pongsLookLikePings)
        let frame = try #require(Protocols.smpp.ping(number: 9))
        #expect(try Protocols.smpp.encoded(frame) == ping)
        #expect(try Protocols.smpp.decoded(ping + pong).frames.map(\.kind) == [.ping, .pong])
        let answer = try #require(Protocols.smpp.pong(answering: frame))
        #expect(try Protocols.smpp.encoded(answer) == pong)
        #expect(try Protocols.smpp.serverSide().decoded(pong).frames == [answer])
    }

    @Test func aRequestFromTheServerIsAPushThatTheClientCanAnswer() throws {
        let deliver = hex("00000011 00000005 00000000 00000007 00")
        let unbind = hex("00000010 00000006 00000000 00000008")
        #expect(try Protocols.smpp.decoded(deliver + unbind).frames.map(\.kind) == [.push, .goAway])
        let answer = Frame(.response, type: 5, serial: 7, body: [0])
        #expect(try Protocols.smpp.encoded(answer) == hex("00000011 80000005 00000000 00000007 00"))
        let server = Protocols.smpp.serverSide()
        #expect(try server.encoded(Frame(.push, type: 5, serial: 7, body: [0])) == deliver)
        #expect(try server.encoded(Frame(.goAway, serial: 8)) == unbind)
        #expect(try server.decoded(hex("00000011 80000005 00000000 00000007 00")).frames == [answer])
    }

    @Test func theClientClosesWithTheTypeOfGoAway() throws {
        let unbind = hex("00000010 00000006 00000000 00000009")
        #expect(try Protocols.smpp.encoded(Frame(.request, type: 6, serial: 9)) == unbind)
        #expect(
            try Protocols.smpp.decoded(hex("00000010 80000006 00000000 00000009")).frames.map(\.kind) == [.response]
        )
    }

    @Test func invalidFramesAreRefused() {
        #expect(Protocols.smpp.refusal(of: hex("0000000f")) == .illegalLength)
        #expect(Protocols.smpp.refusal(of: hex("01000001")) == .illegalLength)
        #expect(Protocols.smpp.refusal(of: Frame(.request, type: 0x8000_0002)) == .unknownType)
        #expect(Protocols.smpp.refusal(of: Frame(.request, type: 0x15)) == .unknownType)
        #expect(Protocols.smpp.refusal(of: Frame(.part, type: 4)) == .unknownType)
    }
}

struct DiameterLayoutTests {
    // RFC 6733 shows no bytes. These follow its sections 3 and 4.1: a request without AVPs, an answer with Result-Code
    // 2001.
    static let request = hex("01 000014 80 000101 00000000 00000032 00000007")
    static let answer = hex("01 000020 00 000101 00000000 00000032 00000007 0000010c 4000000c 000007d1")

    @Test func theRequestBitDistinguishesAnswersFromRequests() throws {
        var frame = Frame(.request, type: 257, serial: 0x32)
        frame["endToEnd"] = 7
        #expect(try Protocols.diameter.encoded(frame) == Self.request)
        frame["flags"] = 0x40
        #expect(try Protocols.diameter.encoded(frame)[4] == 0xC0)
        let seen = try #require(Protocols.diameter.serverSide().decoded(Self.request).frames.first)
        #expect(seen.kind == .request && seen.type == 257 && seen["flags"] == 0x80 && seen["endToEnd"] == 7)
        let answer = try #require(Protocols.diameter.decoded(Self.answer).frames.first)
        #expect(answer.kind == .response && !answer.isErrorResponse && answer.type == 257 && answer.serial == 0x32)
        #expect(answer["flags"] == 0 && answer.body.count == 12)
        #expect(try Protocols.diameter.serverSide().encoded(answer) == Self.answer)
        // A response made from its request keeps the request's flags, except for the request bit.
        var reply = answer
        reply["flags"] = 0xC0
        #expect(try Protocols.diameter.serverSide().encoded(reply)[4] == 0x40)
    }

    @Test func theErrorBitMarksAnErrorResponse() throws {
        var bytes = Self.answer
        bytes[4] = 0x20
        let answer = try #require(Protocols.diameter.decoded(bytes).frames.first)
        #expect(answer.isErrorResponse)
        #expect(try Protocols.diameter.serverSide().encoded(answer) == bytes)
        bytes[4] = 0xA0
        #expect(try Protocols.diameter.decoded(bytes).frames.map(\.kind) == [.push])
    }

    @Test func aWatchdogIsAPingAndADisconnectIsAGoAway() throws {
        let watchdog = hex("01 000014 80 000118 00000000 00000001 00000000")
        let itsAnswer = hex("01 000014 00 000118 00000000 00000001 00000000")
        let goodbye = hex("01 000014 80 00011a 00000000 00000009 00000000")
        #expect(
            try Protocols.diameter.decoded(watchdog + itsAnswer + goodbye).frames.map(\.kind) == [
                .ping, .pong, .goAway,
            ]
        )
        let ping = try #require(Protocols.diameter.ping(number: 0))
        #expect(try Protocols.diameter.encoded(ping) == watchdog)
        #expect(try Protocols.diameter.encoded(#require(Protocols.diameter.pong(answering: ping))) == itsAnswer)
        #expect(try Protocols.diameter.serverSide().encoded(Frame(.goAway, serial: 9)) == goodbye)
    }

    @Test func invalidFramesAreRefused() {
        #expect(Protocols.diameter.refusal(of: hex("02")) == .unexpectedBytes)
        #expect(Protocols.diameter.refusal(of: hex("01 000013")) == .illegalLength)
        #expect(Protocols.diameter.refusal(of: Frame(.request, type: 280)) == .unknownType)
        #expect(Protocols.diameter.refusal(of: Frame(.request, type: 1 << 24)) == .unknownType)
    }
}
