import Testing
import Trunkline

/// Two roles for the same frame. Such roles used to be accepted, and the frame got the role that was checked first:
/// subscribers missed pushes, and callers could not send requests.
struct RoleConflictTests {
    private let flagged = RoleTests.flagged

    private func mistake(
        in layout: FrameLayout = RoleTests.flagged,
        _ declare: (inout FrameLayout.Roles) -> Void
    ) -> String? {
        #expect(throws: LayoutError.self) { try layout.validatingRoles(declare) }?.description
    }

    private func both(_ number: String, _ second: String, _ first: String) -> String {
        "role \(second): the type \(number) already has the role \(first)"
    }

    @Test func aTypeCannotHaveTwoRolesAndTheErrorNamesBothAndTheNumber() {
        #expect(mistake { ($0.ping, $0.push) = (1, 1) } == both("0x1", "push", "ping"))
        #expect(mistake { ($0.ping, $0.requests) = (1, 1...) } == both("0x1", "requests", "ping"))
        #expect(mistake { ($0.push, $0.goAway) = (.types(2...9), 5) } == both("0x5", "push", "goAway"))
        #expect(mistake { ($0.ping, $0.cancel) = (3, 3) } == both("0x3", "cancel", "ping"))
        #expect(mistake { ($0.ping, $0.pong, $0.cancel) = (1, 3, 3) } == both("0x3", "cancel", "pong"))
        #expect(mistake { ($0.ping, $0.pong, $0.push) = (1, 9, .types(3...9)) } == both("0x9", "push", "pong"))
        #expect(mistake { ($0.push, $0.cancel) = (.types(2...9), 4) } == both("0x4", "push", "cancel"))
        #expect(mistake { ($0.ping, $0.goAway) = (4, 4) } == both("0x4", "goAway", "ping"))
        #expect(mistake { ($0.ping, $0.part) = (4, 4) } == both("0x4", "part", "ping"))
        #expect(mistake { ($0.ping, $0.closing) = (4, 4) } == both("0x4", "closing", "ping"))
        #expect(mistake { ($0.cancel, $0.window) = (4, 4) } == both("0x4", "window", "cancel"))
        #expect(mistake { ($0.part, $0.window) = (4, 4) } == both("0x4", "part", "window"))
        #expect(mistake { ($0.push, $0.requests) = (.types(1...3), 3...) } == both("0x3", "requests", "push"))
        #expect(mistake { ($0.push, $0.part) = (.types(7...8), 8) } == both("0x8", "part", "push"))
    }

    @Test func aFieldValueCannotHaveTwoRoles() {
        let mistake = mistake { ($0.push, $0.goAway) = (.field("flags", 1...3), .field("flags", 2)) }
        #expect(mistake == "role push: flags 0x2 already has the role goAway")
    }

    @Test func rolesThatDifferInAnotherWayMayHaveTheSameType() throws {
        // A pong like its ping.
        _ = try flagged.validatingRoles { ($0.ping, $0.pong) = (1, 1) }
        // If responses have a mark: pushes, goAway frames and requests.
        _ = try flagged.validatingRoles {
            $0.push = .types(3...5)
            $0.response = .bit(7)
            $0.goAway = 6
            $0.requests = 3...6
        }
        // One in each direction.
        _ = try flagged.validatingRoles { ($0.goAway, $0.closing) = (6, 6) }
        // A range of commands that includes the heartbeat.
        let amid = try flagged.validatingRoles {
            $0.ping = 5
            $0.requests = 3...9
        }
        #expect(amid.refusal(of: Frame(.request, type: 5)) == .unknownType)
        #expect(amid.refusal(of: Frame(.request, type: 6)) == nil)
        // Parts may have the types of requests, or others.
        _ = try flagged.validatingRoles { ($0.part, $0.requests) = (3, 3...5) }
        _ = try flagged.validatingRoles { ($0.push, $0.goAway) = (.field("flags", 1), .field("wait", 1)) }
    }

    @Test func aWindowUpdateIsARequestWithTheSerialOfAnotherRequest() throws {
        let layout = flagged.roles {
            $0.window = 2
            $0.requests = 3...9
        }
        let frames = try layout.serverSide().decoded(layout.encoded(Frame(.request, type: 2, serial: 9))).frames
        #expect(frames.map(\.kind) == [.request] && frames.map(\.serial) == [9])
        let server = ProtocolCodec(layout.serverSide())
        #expect(frames.allSatisfy { layout.isWindowUpdate($0) && server.isWindowUpdate($0) })
        #expect(!layout.isWindowUpdate(Frame(.request, type: 3)) && !flagged.isWindowUpdate(Frame(.request)))
        let unnumbered = FrameLayout {
            Field.type(UInt8.self)
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        let mistake = mistake(in: unnumbered) { $0.window = 2 }
        #expect(mistake == "role window: the layout has no serial field to identify the request")
    }

    @Test func aClosureCanReadAPushAsAGoAway() throws {
        let layout = flagged.roles {
            $0.push = .types(0x80...)
            $0.retryAfter = .seconds(in: "wait")
            $0.kind = { $0.type == 0x85 ? .goAway : $0.kind }
        }
        let frames = try layout.decoded(hex("84 00 00 0000 00 85 00 00 0007 00 86 00 00 0000 00")).frames
        #expect(frames.map(\.kind) == [.push, .goAway, .push])
        #expect(layout.retryAfter(in: frames[1]) == .seconds(7))
    }

    /// Negative numbers do not compile.
    @Test func anEmptyRangeIsAnError() {
        #expect(mistake { $0.push = .types(2..<2) } == "role push: its range of numbers is empty")
        #expect(mistake { $0.serials = 5..<5 } == "role serials: its range of numbers is empty")
        #expect(mistake { $0.requests = ..<0 } == "role requests: its range of numbers is empty")
        #expect(mistake { $0.goAway = .field("wait", 7..<7) } == "role goAway: its range of numbers is empty")
    }

    @Test func everyKindOfRangeCoversItsNumbers() throws {
        #expect(mistake { ($0.ping, $0.push) = (5, .types(3..<6)) } == both("0x5", "push", "ping"))
        _ = try flagged.validatingRoles { ($0.ping, $0.push) = (6, .types(3..<6)) }
        #expect(mistake { ($0.ping, $0.push) = (6, .types(...6)) } == both("0x6", "push", "ping"))
        _ = try flagged.validatingRoles { ($0.ping, $0.push) = (6, .types(..<6)) }
        #expect(mistake { ($0.ping, $0.push) = (0, .types(..<6)) } == both("0x0", "push", "ping"))
        #expect(flagged.roles { $0.serials = 5..<9 }.matching == .serial(5...8))
    }

    @Test func aRangeThatIsReadBackHasTheSameNumbers() {
        let ranges: [any RangeExpression<SerialNumber>] = [5...9, 5..<9, 5..., ...9, ..<9]
        for range in ranges {
            let layout = flagged.roles {
                $0.serials = range
                $0.serials = $0.serials
            }
            #expect(layout.matching == flagged.roles { $0.serials = range }.matching, "\(range)")
        }
        let empty = mistake {
            $0.requests = ..<0
            $0.requests = $0.requests
        }
        #expect(empty == "role requests: its range of numbers is empty")
    }

    @Test func theClosureReceivesNoRoles() {
        let layout = flagged.roles { ($0.ping, $0.push, $0.requests) = (1, 2, 3...) }
        var received: FrameLayout.Roles?
        _ = layout.roles { received = $0 }
        #expect(received?.ping == nil && received?.push == nil && received?.requests == nil)
    }

    @Test func anErrorNamesTheNumberThatDoesNotFit() {
        #expect(
            mistake { $0.requests = 3...256 }
                == "role requests: 0x100 does not fit the type field, which has 1 byte"
        )
    }

    @Test func anErrorNamesTheBitsThatAreOutsideTheirField() {
        #expect(
            mistake { $0.push = .bit(8, of: "flags") }
                == "role push: bit 8 is outside the \"flags\" field, which has bits 0 to 7"
        )
        #expect(
            mistake { $0.failure = .bits(5..<9) }
                == "role failure: bits 5 to 8 are outside the type field, which has bits 0 to 7"
        )
        #expect(
            mistake { $0.failure = .bits(0..<2, of: "flags", holding: 0...) }
                == "role failure: every frame would have the role, because its numbers include all values of the bits"
        )
    }
}
