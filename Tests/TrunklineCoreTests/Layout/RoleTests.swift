import SampleLayouts
import Testing
import Trunkline

@testable import TrunklineCore
@testable import TrunklineLayouts

/// Roles that are more than the number of a type.
struct RoleTests {
    static let flagged = FrameLayout {
        Field.type(UInt8.self)
        Field.serial(UInt8.self)
        Field.integer("flags", UInt8.self)
        Field.integer("wait", UInt16.self)
        Field.length(UInt8.self, counting: .body)
        Field.body
    }

    @Test func everyPartButTheLastHasAMark() throws {
        let layout = Self.flagged.roles { $0.part = .bit(0, of: "flags") }
        let server = layout.serverSide()
        let parts = [Frame(.part, type: 3, serial: 9, body: "a"), Frame(.response, type: 3, serial: 9, body: "b")]
        let bytes = try parts.flatMap { try server.encoded($0) }
        #expect(bytes == hex("03 09 01 0000 01 61 03 09 00 0000 01 62"))
        #expect(try layout.decoded(bytes).frames.map(\.kind) == [.part, .response])
        // The bit with the opposite meaning: this is the last part.
        let last = Self.flagged.roles { $0.part = .bit(0, of: "flags", isSet: false) }
        #expect(try last.decoded(bytes).frames.map(\.kind) == [.response, .part])
        #expect(
            try parts.flatMap { try last.serverSide().encoded($0) } == hex("03 09 00 0000 01 61 03 09 01 0000 01 62")
        )
    }

    @Test func aPartCanBeMarkedByANumberATypeOrABitOfTheType() throws {
        let counted = Self.flagged.roles { $0.part = .field("wait", 1...) }
        let bytes = hex("03 09 00 0002 00 03 09 00 0000 00")
        #expect(try counted.decoded(bytes).frames.map(\.kind) == [.part, .response])
        #expect(try counted.serverSide().encoded(Frame(.part, type: 3, serial: 9)) == hex("03 09 00 0001 00"))
        let typed = Self.flagged.roles { $0.part = 7 }
        #expect(try typed.decoded(hex("07 09 00 0000 00 03 09 00 0000 00")).frames.map(\.kind) == [.part, .response])
        #expect(typed.serverSide().refusal(of: Frame(.part, type: 3)) == .unknownType)
        #expect(typed.serverSide().refusal(of: Frame(.response, type: 7)) == .unknownType)
        let bit = Self.flagged.roles { $0.part = .bit(7) }
        #expect(
            try bit.decoded(hex("83 09 00 0000 00")).frames.map { [$0.kind == .part, $0.type == 3] } == [[true, true]]
        )
        #expect(try bit.serverSide().encoded(Frame(.part, type: 3, serial: 9)) == hex("83 09 00 0000 00"))
    }

    @Test func goAwayCarriesTheRetryDelay() throws {
        let layout = Self.flagged.roles {
            $0.goAway = 8
            $0.retryAfter = .seconds(in: "wait")
        }
        let frames = try layout.decoded(hex("08 00 00 0102 00 08 00 00 0000 00 03 09 00 0005 00")).frames
        #expect(frames.map(\.kind) == [.goAway, .goAway, .response])
        #expect(layout.retryAfter(in: frames[0]) == .seconds(0x102))
        #expect(layout.retryAfter(in: frames[1]) == nil)
        let fast = Self.flagged.roles {
            $0.goAway = .field("flags", 0x80...)
            $0.retryAfter = .milliseconds(in: "wait")
        }
        let goAway = try #require(fast.decoded(hex("03 00 81 0102 00")).frames.first)
        #expect(goAway.kind == .goAway && fast.retryAfter(in: goAway) == .milliseconds(0x102))
        #expect(try fast.serverSide().encoded(Frame(.goAway)) == hex("00 00 80 0000 00"))
        #expect(Self.flagged.retryAfter(in: goAway) == nil)
        #expect(layout.refusal(of: Frame(.request, type: 8)) == .unknownType)
        #expect(Self.flagged.serverSide().refusal(of: Frame(.goAway, type: 8)) == .unknownType)
    }

    @Test func anExcessiveRetryDelayIsClamped() throws {
        let layout = FrameLayout {
            Field.type(UInt8.self)
            Field.integer("wait", UInt64.self)
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        let frame = try #require(layout.decoded(hex("08 ffffffffffffffff 00")).frames.first)
        let inSeconds = layout.roles { ($0.goAway, $0.retryAfter) = (8, .seconds(in: "wait")) }
        #expect(inSeconds.retryAfter(in: frame) == .seconds(Int64.max))
    }

    @Test func aPushCanBeMarkedByAFieldOrABit() throws {
        let layout = Self.flagged.roles { $0.push = .field("flags", 2) }
        #expect(try layout.decoded(hex("03 00 02 0000 00 03 09 01 0000 00")).frames.map(\.kind) == [.push, .response])
        #expect(try layout.serverSide().encoded(Frame(.push, type: 3)) == hex("03 00 02 0000 00"))
        var response = Frame(.response, type: 3)
        response["flags"] = 2
        #expect(layout.serverSide().refusal(of: response) == .unknownType)
        let bit = Self.flagged.roles { $0.push = .bit(7) }
        #expect(try bit.decoded(hex("83 00 00 0000 00")).frames.map(\.kind) == [.push])
        #expect(try bit.serverSide().encoded(Frame(.push, type: 3)) == hex("83 00 00 0000 00"))
    }

    @Test func ifResponsesHaveAMarkPushesCanHaveTypesOfRequests() throws {
        let layout = Self.flagged.roles {
            $0.push = 3
            $0.response = .bit(7)
        }
        #expect(try layout.decoded(hex("83 09 00 0000 00 03 00 00 0000 00")).frames.map(\.kind) == [.response, .push])
        #expect(layout.refusal(of: Frame(.request, type: 3)) == nil)
        // Neither a response nor a push: the client counts it as unexpected.
        #expect(try layout.decoded(hex("04 00 00 0000 00")).frames.map(\.kind) == [.request])
    }

    @Test func severalBitsOfAFieldCanMarkAFailureAndHoldTheStatus() throws {
        let layout = Self.flagged.roles { $0.failure = .bits(4..<7, of: "flags") }
        let bytes = hex("03 09 30 0000 00 03 09 8f 0000 00")
        let frames = try layout.decoded(bytes).frames
        #expect(frames.map(\.isErrorResponse) == [true, false])
        #expect(frames.map(\.status) == [3, 0])
        let server = layout.serverSide()
        #expect(try frames.flatMap { try server.encoded($0) } == bytes)
        // These bits hold a status that fits, and the lowest failure value for any other. They are zero in a frame that
        // is not an error response.
        func sent(_ status: UInt32, _ isErrorResponse: Bool, flags: UInt64 = 0) throws -> [UInt8] {
            var frame = Frame(.response, type: 3, serial: 9, status: status, isErrorResponse: isErrorResponse)
            frame["flags"] = flags
            return try server.encoded(frame)
        }
        #expect(try sent(5, true, flags: 0x0f) == hex("03 09 5f 0000 00"))
        #expect(try sent(404, true) == hex("03 09 10 0000 00"))
        #expect(try sent(0, true, flags: 0x20) == hex("03 09 20 0000 00"))
        #expect(try sent(0, false, flags: 0xff) == hex("03 09 8f 0000 00"))
    }

    @Test func severalBitsCanHoldTheGivenNumbers() throws {
        let layout = Self.flagged.roles {
            $0.push = .bits(0...1, of: "flags", holding: 2...3)
            $0.failure = .bits(6..<8, holding: 2...2)
        }
        // The top bits of the type field are a mark, not part of the type.
        let frames = try layout.decoded(hex("03 09 02 0000 00 43 09 01 0000 00 83 09 00 0000 00")).frames
        #expect(frames.map(\.kind) == [.push, .response, .response])
        #expect(frames.map(\.type) == [3, 3, 3] && frames.map(\.isErrorResponse) == [false, false, true])
        #expect(try layout.serverSide().encoded(Frame(.push, type: 3)) == hex("03 00 02 0000 00"))
        #expect(layout.refusal(of: Frame(.request, type: 0x43)) == .unknownType)
        var marked = Frame(.response, type: 3)
        marked["flags"] = 7
        #expect(try layout.serverSide().encoded(marked) == hex("03 00 04 0000 00"))
        let zero = Self.flagged.roles { $0.push = .bits(0...1, of: "flags", holding: 0...1) }
        #expect(try zero.serverSide().encoded(Frame(.response, type: 3)) == hex("03 00 02 0000 00"))
    }

    /// Found by fuzzing: an error response marked by its status was encoded with the lowest type of the role failure.
    @Test func anErrorResponseMarkedByItsStatusKeepsItsType() throws {
        let layout = try FrameLayout(validating: [
            .type(UInt8.self), .status(UInt8.self), .length(UInt8.self, counting: .body), .body,
        ])
        .validatingRoles { $0.failure = .types(0x2c...0x33) }
        for bytes in [hex("00 02 00"), hex("2c 02 00"), hex("2d 00 00")] {
            let frame = try #require(layout.decoded(bytes).frames.first)
            #expect(frame.isErrorResponse)
            #expect(try layout.serverSide().encoded(frame) == bytes)
        }
        #expect(try layout.serverSide().encoded(Frame(.response, isErrorResponse: true)) == hex("2c 00 00"))
    }

    @Test func fieldsThatAResponseRepeatsAreComparedWithItsRequest() throws {
        let layout = Self.flagged.roles {
            $0.response = .bit(7)
            $0.part = 0x20
            $0.responsesRepeat = [.type, .field("wait")]
        }
        #expect(layout.checksResponses && !Self.flagged.checksResponses)
        func complaint(_ bytes: [UInt8], to request: Frame) throws -> String? {
            let response = try #require(layout.decoded(bytes).frames.first)
            do throws(FrameError) {
                try layout.check(response, against: request)
                return nil
            } catch {
                #expect(error.code == .responseMismatch)
                return error.message
            }
        }
        var request = Frame(.request, type: 3, serial: 9)
        #expect(try complaint(hex("83 09 00 0000 00"), to: request) == nil)
        let type = "the response has the type 0x4, but its request has 0x3"
        #expect(try complaint(hex("84 09 00 0000 00"), to: request) == type)
        let wait = "the response has the field \"wait\" 0x1, but its request has 0x0"
        #expect(try complaint(hex("83 09 00 0001 00"), to: request) == wait)
        // A part is recognized by its type, so its type need not repeat the request's.
        #expect(try complaint(hex("a0 09 00 0000 00"), to: request) == nil)
        #expect(try complaint(hex("a0 09 00 0001 00"), to: request) == wait)
        // Nor is a response's type compared with that of a request's first part.
        let piece = Frame(.part, type: 0x20, serial: 9)
        #expect(try complaint(hex("84 09 00 0000 00"), to: piece) == nil)
        request["wait"] = 1
        #expect(try complaint(hex("83 09 00 0001 00"), to: request) == nil)
    }

    static let kinds = FrameLayout {
        Field.kind(UInt8.self, [.request: 1, .response: 2, .part: 3, .push: 4, .goAway: 5])
        Field.type(UInt8.self)
        Field.length(UInt8.self, counting: .body)
        Field.body
    }
    .roles {
        $0.ping = 9
        $0.cancel = nil
    }

    @Test func aKindFieldDeterminesTheKind() throws {
        let frames = try Self.kinds.decoded(hex("02 07 00 03 07 00 04 07 00 05 07 00 02 09 00 01 09 00 01 07 00"))
            .frames
        #expect(frames.map(\.kind) == [.response, .part, .push, .goAway, .pong, .ping, .request])
        let bytes = try frames.flatMap { try Self.kinds.serverSide().encoded($0) }
        #expect(bytes == hex("02 07 00 03 07 00 04 07 00 05 07 00 02 09 00 01 09 00 01 07 00"))
        #expect(Self.kinds.refusal(of: hex("00 07 00")) == .unknownType)
        #expect(try Self.kinds.encoded(Frame(.request, type: 7)) == hex("01 07 00"))
    }

    @Test func aClosureCanOverrideTheKindOnTheClientsSide() throws {
        let layout = Self.flagged.roles {
            $0.ping = 1
            $0.kind = { frame in
                switch frame["flags"] {
                case 0: frame.kind
                case 1: .push
                default: nil
                }
            }
        }
        let bytes = hex("01 00 00 0000 00 03 09 00 0000 00 03 00 01 0000 00")
        #expect(try layout.decoded(bytes).frames.map(\.kind) == [.ping, .response, .push])
        #expect(try layout.malformedReasons(of: hex("03 00 02 0000 00")) == [.unknownType])
        #expect(try layout.serverSide().decoded(bytes).frames.map(\.kind) == [.ping, .request, .request])
    }

    /// Found by fuzzing: such a frame was encoded as a goAway.
    @Test func aServersRequestAndPushAreNotEncodedAsGoAway() throws {
        let layout = Self.flagged.roles {
            $0.push = .types(2...3)
            $0.response = .bit(0, of: "flags")
            $0.goAway = .bit(7, isSet: false)
        }
        for kind in [Frame.Kind.request, .push] {
            let frame = Frame(kind, type: kind == .push ? 2 : 9, serial: 5)
            var (server, output) = (layout.serverSide(), SendBuffer())
            try server.encode(frame, into: &output)
            let received = try #require(layout.decoded(output.bytes).frames.first)
            #expect(received.kind == kind && received.type == frame.type)
        }
    }

    /// Receiving an unknown type used to end the link and all requests in flight on it.
    @Test func anUnknownTypeIsNotSentAndIsMalformedWhenReceived() throws {
        let layout = Self.flagged.roles {
            $0.ping = 1
            $0.push = 2
            $0.requests = 3...5
        }
        let known = hex("05 09 00 0000 00 01 00 00 0000 00 02 00 00 0000 00")
        #expect(
            try layout.malformedReasons(of: known + hex("06 09 00 0000 01 61") + known) == [
                nil, nil, nil, .unknownType, nil, nil, nil,
            ]
        )
        let frame = try #require(layout.decoded(hex("06 09 00 0000 01 61")).frames.first)
        #expect(frame.kind == .part && frame.type == 6 && frame.serial == 9 && frame.body == "a")
        #expect(
            layout.complaint(about: Frame(.request, type: 6))
                == "type 0x6 is not in the role requests (types 0x3 to 0x5)"
        )
        #expect(layout.serverSide().refusal(of: hex("00 09 00 0000 00")) == .unknownType)
        #expect(layout.refusal(of: Frame(.request, type: 6)) == .unknownType)
        #expect(layout.serverSide().refusal(of: Frame(.response, type: 6)) == .unknownType)
    }

    /// If the frame is not a response, all responses after it would go to the wrong requests.
    @Test func inOrderAnUnknownTypeEndsTheLink() {
        let layout = FrameLayout {
            Field.type(UInt8.self)
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        .roles { $0.requests = 3...5 }
        #expect(layout.refusal(of: hex("06 00")) == .unknownType)
        #expect(layout.refusal(of: hex("05 00")) == nil)
    }

    /// A part with its own type was refused if `requests` did not include the type.
    @Test func aPartMayHaveATypeThatNoRequestHas() throws {
        let layout = Self.flagged.roles {
            $0.part = 7
            $0.requests = 3...5
        }
        let part = Frame(.part, type: 7, serial: 9)
        #expect(try layout.decoded(layout.serverSide().encoded(part)).frames.map(\.kind) == [.part])
        #expect(try layout.malformedReasons(of: hex("07 09 00 0000 00 08 09 00 0000 00")) == [nil, .unknownType])
    }

    /// The mark was taken for part of the type: no server could send a part or, with the opposite mark, a response.
    @Test func aMarkInTheTypeFieldDoesNotChangeTheType() throws {
        let parts = [Frame(.part, type: 3, serial: 9), Frame(.response, type: 3, serial: 9, body: "b")]
        for isSet in [true, false] {
            let layout = Self.flagged.roles {
                $0.part = .bit(7, isSet: isSet)
                $0.requests = 3...5
            }
            .requiringBody(inResponsesTo: 3...3)
            let server = layout.serverSide()
            let bytes = try parts.flatMap { try server.encoded($0) }
            #expect(try layout.decoded(bytes).frames.map(\.kind) == [.part, .response])
            #expect(server.refusal(of: Frame(.response, type: 3, serial: 9)) == .missingBody)
            #expect(server.refusal(of: Frame(.part, type: 6, serial: 9)) == .unknownType)
        }
    }

    @Test func aLinkEndsWithAClosingFrameIfTheLayoutHasTheRole() throws {
        let smpp = FrameLayout {
            Field.length(UInt32.self, counting: .wholeFrame)
            Field.type(UInt32.self)
            Field.status(UInt32.self)
            Field.serial(UInt32.self)
            Field.body
        }
        .roles {
            $0.ping = 0x15
            $0.response = .bit(31)
            $0.goAway = 6
            $0.closing = 6
            $0.requests = 9...0x103
            $0.serials = 2...
        }
        let unbind = try #require(smpp.closingFrame())
        #expect(try smpp.encoded(unbind) == hex("00000010 00000006 00000000 00000001"))
        #expect(try smpp.decoded(hex("00000010 00000006 00000000 00000001")).frames.map(\.kind) == [.goAway])
        #expect(try smpp.malformedReasons(of: hex("00000010 80000006 00000000 00000001")) == [nil])
        #expect(try smpp.serverSide().decoded(smpp.encoded(unbind)).frames == [unbind])
        #expect(LinkCodec(smpp.serverSide()).closingFrame() == nil && FrameLayout.standard.closingFrame() == nil)
        // The same type can have both roles without a mark, too, and no request may have it.
        let plain = Self.flagged.roles {
            $0.goAway = 8
            $0.closing = 8
        }
        #expect(try plain.encoded(#require(plain.closingFrame())) == hex("08 00 00 0000 00"))
        #expect(try plain.decoded(hex("08 00 00 0000 00")).frames.map(\.kind) == [.goAway])
    }

    @Test func aFailureBitNeedsNoStatus() throws {
        let layout = Self.flagged.roles { $0.failure = .bit(3, of: "flags") }
        let bytes = hex("03 09 08 0000 00")
        #expect(try layout.decoded(bytes).frames.map(\.isErrorResponse) == [true])
        #expect(try layout.serverSide().encoded(Frame(.response, type: 3, serial: 9, isErrorResponse: true)) == bytes)
        #expect(try layout.serverSide().decoded(bytes).frames.map(\.isErrorResponse) == [false])
    }
}

struct RoleMistakeTests {
    private func role(
        in layout: FrameLayout = RoleTests.flagged,
        _ declare: (inout FrameLayout.Roles) -> Void
    ) -> String? {
        #expect(throws: LayoutError.self) { try layout.validatingRoles(declare) }?.field
    }

    @Test func everyInvalidRoleIsNamed() {
        #expect(role { $0.response = .bit(8) } == "role response")
        #expect(role { $0.response = .bit(-1) } == "role response")
        #expect(role { $0.response = .bit(0, of: "flag") } == "role response")
        #expect(role { $0.push = .bit(8, of: "flags") } == "role push")
        #expect(role { $0.push = .field("flags", 256...) } == "role push")
        #expect(role { $0.part = 256 } == "role part")
        #expect(role { $0.goAway = .field("nothing", 1) } == "role goAway")
        #expect(role { $0.retryAfter = .seconds(in: "wait") } == "role retryAfter")
        #expect(role { ($0.goAway, $0.retryAfter) = (1, .seconds(in: "x")) } == "role retryAfter")
        #expect(role { $0.failure = .bit(16, of: "wait") } == "role failure")
        #expect(role { $0.requests = 3...256 } == "role requests")
        #expect(role { ($0.response, $0.failure) = (.bit(7), .bit(7)) } == "role failure")
        #expect(role { ($0.ping, $0.response) = (0x81, .bit(7)) } == "role ping")
        #expect(role { ($0.response, $0.goAway) = (.bit(7), 0x81) } == "role goAway")
        #expect(role(in: RoleTests.kinds) { $0.response = .bit(7) } == "role response")
        #expect(role(in: Layouts.named) { $0.part = .bit(0, of: "token") } == "role part")
        #expect(role(in: Protocols.dns) { $0.response = .bit(31) } == "role response")
        #expect(role { $0.failure = .bits(5..<9, of: "flags") } == "role failure")
        #expect(role { $0.failure = .bits(-1..<2, of: "flags") } == "role failure")
        #expect(role { $0.failure = .bits(2..<2, of: "flags") } == "role failure")
        #expect(role { $0.failure = .bits(0..<2, of: "flags", holding: 4...4) } == "role failure")
        #expect(role { $0.failure = .bits(0..<2, of: "flags", holding: 0...) } == "role failure")
        #expect(role { $0.failure = .bits(0..<2, of: "flag") } == "role failure")
        #expect(role { ($0.response, $0.failure) = (.bit(7), .bits(6...7)) } == "role failure")
        #expect(role { $0.responsesRepeat = [.field("flag")] } == "role responsesRepeat")
        #expect(role(in: Protocols.dns) { $0.responsesRepeat = [.type] } == "role responsesRepeat")
    }

    @Test func rolesAreCheckedAgainstBothLayouts() throws {
        func layout(_ request: [Field], _ response: [Field]) throws -> FrameLayout {
            let rest = [Field.length(UInt8.self, counting: .body), .body]
            return try FrameLayout(validating: request + rest, response: response + rest)
        }
        func mistakenField(_ make: () throws -> FrameLayout) -> String? {
            #expect(throws: LayoutError.self) { try make() }?.field
        }
        let (narrow, wide) = ([Field.type(UInt8.self)], [Field.type(UInt16.self)])
        #expect(try role(in: layout(wide, narrow)) { $0.ping = 256 } == "role ping")
        #expect(try role(in: layout(wide, [])) { $0.ping = 1 } == "role ping")
        #expect(try role(in: layout(wide, [])) { $0.push = 1 } == "role push")
        #expect(try role(in: layout([.status(UInt8.self)], [])) { $0.success = .statuses(1...1) } == "role success")
        #expect(try role(in: layout(wide, narrow)) { $0.response = .bit(8) } == "role response")
        let serials = ([Field.serial(UInt16.self)], [Field.serial(UInt8.self)])
        #expect(try role(in: layout(serials.0, serials.1)) { $0.serials = 1...256 } == "role serials")
        #expect(try layout(serials.0, serials.1).matching == .serial(1...255))
        #expect(mistakenField { try layout(serials.0, []) } == "response serial")
        #expect(mistakenField { try layout([], serials.1) } == "request serial")
    }

    @Test func pingsWithoutABodyAreInvalidIfTheLayoutRequiresABody() {
        let layout = FrameLayout {
            Field.type(UInt8.self)
            Field.length(UInt8.self, counting: .body)
            Field.body(sizes: 1...)
        }
        #expect(role(in: layout) { $0.ping = 1 } == "role ping")
    }

    /// Each final response used to be taken for a part, and its caller waited in vain.
    @Test func twoRolesCannotHaveTheSameMark() {
        let layout = FrameLayout {
            Field.type(UInt16.self)
            Field.integer("flags", UInt8.self)
            Field.serial(UInt32.self)
            Field.length(UInt32.self, counting: .body)
            Field.body
        }
        let error = #expect(throws: LayoutError.self) {
            try layout.validatingRoles { ($0.response, $0.part) = (.bit(7, of: "flags"), .bit(7, of: "flags")) }
        }
        #expect(error?.description == "role part: it has the same mark as the role response")
    }
}
