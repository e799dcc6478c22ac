import Testing
import TrunklineCore

/// Pings and pongs of declared layouts.
@Suite struct LayoutHeartbeatTests {
    private static let separate = FrameLayout {
        Field.type(UInt8.self)
        Field.serial(UInt16.self)
        Field.length(UInt8.self, counting: .body)
        Field.body
    }
    .roles(ping: 8, pong: 9, push: 3...7)

    @Test func standardPingsHaveTheReservedSerialsInTurn() throws {
        let layout = FrameLayout.standard
        let first = try #require(layout.ping(number: 0))
        #expect(first.kind == .ping)
        #expect(try layout.encoded(first) == hex("00000001 00000001 00000000"))
        #expect(layout.ping(number: 48)?.serial == 49)
        #expect(layout.ping(number: 49)?.serial == 1)
        #expect(layout.ping(number: .max)?.serial == 1 + UInt64.max % 49)
    }

    @Test func standardPongsRepeatTypeAndSerial() throws {
        let layout = FrameLayout.standard
        let pong = try #require(layout.pong(answering: Frame(.ping, type: 1, serial: 7, body: "not repeated")))
        #expect(pong == Frame(.pong, type: 1, serial: 7))
        #expect(try layout.encoded(pong) == hex("00000001 00000007 00000000"))
        #expect(layout.pongsLookLikePings)
    }

    @Test func aRolePongIsATypeOfItsOwn() throws {
        let layout = Self.separate
        #expect(!layout.pongsLookLikePings)
        #expect(try layout.encoded(Frame(.ping)) == hex("08 0000 00"))
        #expect(try layout.encoded(Frame(.pong, serial: 5)) == hex("09 0005 00"))
        #expect(layout.pong(answering: Frame(.ping, serial: 5)) == Frame(.pong, type: 9, serial: 5))
        let frames = try layout.decoded(hex("08 0001 00 09 0001 00 07 0000 00")).frames
        #expect(frames.map(\.kind) == [.ping, .pong, .push])
        #expect(try layout.serverSide().decoded(hex("08 0001 00 09 0001 00")).frames.map(\.kind) == [.ping, .pong])
        #expect(layout.refusal(of: Frame(.request, type: 9)) == .unknownType)
        #expect(layout.ping(number: 5)?.serial == 0)  // no serial is reserved
    }

    @Test(arguments: [0, 9] as [UInt32])
    func aPongOfItsOwnTypeNeedsNotBeAmongTheTypesOfResponses(_ type: UInt32) throws {
        let layout = FrameLayout {
            Field.type(UInt8.self)
            Field.serial(UInt16.self)
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        .roles(ping: 8, pong: type, response: (0x80...0xFF).markOfRole)
        for side in [layout, layout.serverSide()] {
            let pong = try #require(side.pong(answering: Frame(.ping, type: 8, serial: 5)), "\(side)")
            let bytes = try side.encoded(pong)
            #expect(bytes == hex(type == 0 ? "00 0005 00" : "09 0005 00"))
            #expect(try side.serverSide().decoded(bytes).frames == [pong])
            #expect(try layout.decoded(bytes).frames == [pong])
        }
    }

    @Test func aPongOfTheSameTypeAsThePingIsNone() {
        #expect(Layouts.acme.roles(ping: 4, pong: 4).pongsLookLikePings)
    }

    @Test func withoutTheRolePingThereIsNone() {
        let layout = Layouts.acme.roles(push: 1)
        #expect(layout.ping(number: 0) == nil)
        #expect(layout.pong(answering: Frame(.ping)) == nil)
    }

    @Test func rolesThatDoNotFitAreRefused() throws {
        #expect(throws: LayoutError.self) { try Layouts.acme.validatingRoles(pong: 1) }
        #expect(throws: LayoutError.self) { try Layouts.acme.validatingRoles(ping: 1, pong: 0x10000) }
        #expect(throws: LayoutError.self) { try Layouts.acme.validatingRoles(ping: 1, pong: 2, cancel: 2) }
    }

    @Test func aLayoutWithoutSerialsPingsWithoutOne() {
        let layout = FrameLayout {
            Field.type(UInt8.self)
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        .roles(ping: 1)
        #expect(layout.ping(number: 3) == Frame(.ping, type: 1))
    }
}
