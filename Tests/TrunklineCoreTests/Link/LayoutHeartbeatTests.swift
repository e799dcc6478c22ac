import SampleLayouts
import Testing
import Trunkline

/// Pings and pongs of declared layouts.
@Suite struct LayoutHeartbeatTests {}

extension LayoutHeartbeatTests {
    private static let separate = FrameLayout {
        Field.type(UInt8.self)
        Field.serial(UInt16.self)
        Field.length(UInt8.self, counting: .body)
        Field.body
    }
    .roles {
        $0.ping = 8
        $0.pong = 9
        $0.push = .types(3...7)
    }

    /// A layout without a type for heartbeats used to have none.
    @Test func aRequestCanServeAsAPing() throws {
        let dns = Protocols.dns
        let first = try #require(dns.ping(number: 0))
        #expect(first.kind == .ping && first.serial == 1 && dns.ping(number: 15)?.serial == 1)
        let question = hex("0011 0001 0100 0001 0000 0000 0000 00 0002 0001")
        #expect(try dns.encoded(first) == question)
        #expect(!dns.pongsLookLikePings)
        let seen = try #require(dns.serverSide().decoded(question).frames.first)
        #expect(seen.kind == .ping && seen.serial == 1)
        let pong = try #require(LinkCodec(dns.serverSide()).pong(answering: seen))
        let answer = try dns.serverSide().encoded(pong)
        #expect(answer == hex("0011 0001 8100 0001 0000 0000 0000 00 0002 0001"))
        #expect(try dns.decoded(answer).frames.map(\.kind) == [.pong])
        // An error response to the ping is a pong. One with another serial answers a request.
        let refusals = hex("000c 0001 8185 0000 0000 0000 0000 000c 0010 8185 0000 0000 0000 0000")
        let frames = try dns.decoded(refusals).frames
        #expect(frames.map(\.kind) == [.pong, .response] && frames.map(\.isErrorResponse) == [false, true])
        // The same query as a request, and another one without a serial.
        let others = hex("0011 0010 0100 0001 0000 0000 0000 00 0002 0001 000c 0000 0100 0000 0000 0000 0000")
        #expect(try dns.serverSide().decoded(others).frames.map(\.kind) == [.request, .request])
    }

    @Test func aRequestThatServesAsAPingMayHaveATypeAndFields() throws {
        var diagnostics = Frame(.request, type: 8, body: [0, 0, 0, 0])
        diagnostics["unit"] = 1
        let modbus = Protocols.modbus.roles {
            $0.heartbeat = diagnostics
            $0.failure = .bit(7)
            $0.serials = 1...
        }
        let ping = try #require(modbus.ping(number: 7))
        #expect(try modbus.encoded(ping) == hex("0000 0000 0006 01 08 00000000"))
        let answers = hex("0000 0000 0006 01 08 00000000 0000 0000 0003 01 88 01 0001 0000 0003 01 88 01")
        #expect(try modbus.decoded(answers).frames.map(\.kind) == [.pong, .pong, .response])
    }

    @Test func aKindFieldIdentifiesTheAnswerToARequestThatServesAsAPing() throws {
        let layout = FrameLayout {
            Field.kind(UInt8.self, [.request: 1, .response: 2, .ping: 3, .pong: 4])
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        .roles { $0.heartbeat = Frame(.request, body: "?") }
        let ping = try #require(layout.ping(number: 0))
        #expect(try layout.encoded(ping) == hex("03 01 3f"))
        #expect(try layout.decoded(hex("04 00 02 00 03 01 21")).frames.map(\.kind) == [.pong, .response, .ping])
        #expect(layout.pong(answering: Frame(.ping, body: "!")) == Frame(.pong, body: "!"))
    }

    @Test func aHeartbeatWhoseAnswerCannotBeIdentifiedIsAnError() {
        func complaint(_ make: () throws -> FrameLayout) -> String? {
            do {
                _ = try make()
                return nil
            } catch {
                return "\(error)"
            }
        }
        let question = Frame(.request, body: Protocols.rootQuestion)
        func dns(_ serials: ClosedRange<SerialNumber>, _ frame: Frame) -> String? {
            complaint {
                try Protocols.dns.validatingRoles {
                    $0.heartbeat = frame
                    $0.response = .bit(15, of: "flags")
                    $0.serials = serials
                }
            }
        }
        #expect(dns(0...9, question)?.hasPrefix("role heartbeat: its answer cannot be distinguished") == true)
        #expect(dns(1...9, Frame(.request, body: "short"))?.hasPrefix("role heartbeat: it cannot be sent") == true)
        #expect(dns(1...9, question) == nil)
        let inOrder = FrameLayout {
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        #expect(
            complaint { try inOrder.validatingRoles { $0.heartbeat = Frame(.request) } }
                == "role heartbeat: its answer cannot be distinguished from other responses: list pong in a kind field"
        )
        #expect(
            complaint {
                try Self.separate.validatingRoles { ($0.ping, $0.heartbeat, $0.serials) = (1, Frame(.request), 5...) }
            }
                == "role heartbeat: it cannot be combined with the role ping"
        )
        #expect(
            complaint {
                try Self.separate.validatingRoles {
                    $0.heartbeat = Frame(.request, type: 7)
                    $0.push = 7
                    $0.serials = 5...
                }
            }?
            .hasPrefix("role heartbeat: it cannot be sent") == true
        )
    }

    @Test func standardPingsUseTheReservedSerialsInTurn() throws {
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

    @Test func theRolePongIsASeparateType() throws {
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
    func theTypeOfPongsNeedNotBeAmongTheTypesOfResponses(_ type: UInt32) throws {
        let layout = FrameLayout {
            Field.type(UInt8.self)
            Field.serial(UInt16.self)
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        .roles {
            $0.ping = 8
            $0.pong = type
            $0.response = .types(0x80...0xFF)
        }
        for side in [layout, layout.serverSide()] {
            let pong = try #require(LinkCodec(side).pong(answering: Frame(.ping, type: 8, serial: 5)), "\(side)")
            let bytes = try side.encoded(pong)
            #expect(bytes == hex(type == 0 ? "00 0005 00" : "09 0005 00"))
            #expect(try ProtocolCodec(side).serverSide().decoded(bytes).frames == [pong])
            #expect(try layout.decoded(bytes).frames == [pong])
        }
    }

    @Test func pongsWithTheTypeOfPingsLookLikePings() {
        #expect(Layouts.acme.roles { ($0.ping, $0.pong) = (4, 4) }.pongsLookLikePings)
    }

    @Test func withoutTheRolePingThereAreNoPings() {
        let layout = Layouts.acme.roles { $0.push = 1 }
        #expect(layout.ping(number: 0) == nil)
        #expect(layout.pong(answering: Frame(.ping)) == nil)
    }

    @Test func invalidRolesAreRefused() throws {
        #expect(throws: LayoutError.self) { try Layouts.acme.validatingRoles { $0.pong = 1 } }
        #expect(throws: LayoutError.self) { try Layouts.acme.validatingRoles { ($0.ping, $0.pong) = (1, 0x10000) } }
        #expect(throws: LayoutError.self) {
            try Layouts.acme.validatingRoles { ($0.ping, $0.pong, $0.cancel) = (1, 2, 2) }
        }
    }

    @Test func pingsOfALayoutWithoutSerialsHaveNone() {
        let layout = FrameLayout {
            Field.type(UInt8.self)
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        .roles { $0.ping = 1 }
        #expect(layout.ping(number: 3) == Frame(.ping, type: 1))
    }
}
