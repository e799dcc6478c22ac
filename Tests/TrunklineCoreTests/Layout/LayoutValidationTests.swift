import Testing
import Trunkline

@testable import TrunklineLayouts

struct LayoutValidationTests {
    static let length = Field.length(UInt32.self, counting: .body)
    static let kind = Field.kind(UInt8.self, [.request: 1, .response: 2])

    /// Invalid fields, and the field or role that the error must name.
    static let mistakes: [(fields: [Field], field: String)] = [
        ([], "body"),
        ([length], "body"),
        ([.body], "length"),
        ([length, .body, .body], "field 3, body"),
        ([length, length, .body], "field 2, length (4 bytes)"),
        ([.body, length], "field 2, length (4 bytes)"),
        ([.type(width: 8), length, .body], "field 1, type (8 bytes)"),
        ([.type(width: 0), length, .body], "field 1, type (0 bytes)"),
        ([.status(width: 5), length, .body], "field 1, status (5 bytes)"),
        ([length, .serial(width: 17), .body], "field 2, serial (17 bytes)"),
        ([length, .serial(width: 0), .body], "field 2, serial (0 bytes)"),
        ([length, .type(UInt64.self), .body], "field 2, type (8 bytes)"),
        ([length, .status(UInt64.self), .body], "field 2, status (8 bytes)"),
        ([length, .kind(UInt128.self, [.request: 0, .response: 1]), .body], "field 2, kind (16 bytes)"),
        ([.length(width: -1, counting: .body), .body], "field 1, length (-1 bytes)"),
        ([length, .type(UInt16.self), .body, .type(UInt32.self)], "field 4, type (4 bytes)"),
        ([length, .serial(UInt16.self), .serial(UInt8.self), .body], "field 3, serial (1 byte)"),
        ([length, .status(UInt8.self), .status(UInt8.self), .body], "field 3, status (1 byte)"),
        ([length, .integer("", UInt8.self), .body], "field 2, integer \"\" (1 byte)"),
        ([length, .integer("a", UInt8.self), .body, .integer("a", UInt8.self)], "field 4, integer \"a\" (1 byte)"),
        ([length, .integer("a", UInt8.self, default: 256), .body], "field 2, integer \"a\" (1 byte)"),
        ([length, .constant([]), .body], "field 2, constant (0 bytes)"),
        ([length, .constant(request: [1], response: [1, 2]), .body], "field 2, constant (1 byte)"),
        ([length, .reserved(0), .body], "field 2, reserved (0 bytes)"),
        ([length, .reserved(.max), .body], "field 2, reserved (\(Int.max) bytes)"),
        ([length, .reserved(65535), .body], "body"),
        ([length, .checksum(.crc32, over: .headerAndBody), .body], "field 2, checksum crc32 (4 bytes)"),
        ([length, .bytes("", 4), .body], "field 2, bytes \"\" (4 bytes)"),
        ([length, .bytes("a", 0), .body], "field 2, bytes \"a\" (0 bytes)"),
        ([length, .bytes("a", 65536), .body], "field 2, bytes \"a\" (65536 bytes)"),
        ([length, .bytes("a", 2, default: [1]), .body], "field 2, bytes \"a\" (2 bytes)"),
        ([length, .integer("a", UInt8.self), .bytes("a", 2), .body], "field 3, bytes \"a\" (2 bytes)"),
        ([length, .kind(UInt8.self, [.request: 1]), .body], "field 2, kind (1 byte)"),
        ([length, .kind(UInt8.self, [.response: 1]), .body], "field 2, kind (1 byte)"),
        ([length, .kind(UInt8.self, [.request: 1, .response: 1]), .body], "field 2, kind (1 byte)"),
        ([length, .kind(UInt8.self, [.request: 1, .response: 256]), .body], "field 2, kind (1 byte)"),
        ([length, kind, kind, .body], "field 3, kind (1 byte)"),
        ([length, .body(sizes: 65536...)], "field 2, body"),
        ([.length(UInt8.self, counting: .body), .body(sizes: 256...)], "field 2, body"),
        ([.length(UInt8.self, counting: .body.plus(-4)), .body(sizes: 0...3)], "field 2, body"),
        ([.varintLength(counting: .body), length, .body], "field 2, length (4 bytes)"),
        ([length, .varintLength(counting: .body), .body], "field 2, length (varint)"),
        ([.body, .varintLength(counting: .body)], "field 2, length (varint)"),
        ([.length(UInt8.self, counting: .wholeFrame), .reserved(255), .body], "field 1, length (1 byte)"),
        ([.length(UInt8.self, counting: .body.plus(256)), .body], "field 1, length (1 byte)"),
        ([.length(UInt8.self, counting: .body.plus(.min)), .body], "field 1, length (1 byte)"),
    ]

    @Test(arguments: mistakes.indices)
    func errorNamesTheField(index: Int) {
        let (fields, field) = Self.mistakes[index]
        let error = #expect(throws: LayoutError.self) { try FrameLayout(validating: fields) }
        #expect(error?.field == field)
        #expect(error?.message.isEmpty == false)
    }

    @Test func errorNamesTheLayoutIfThereAreTwo() {
        let good = [Self.length, .body]
        for (fields, field) in Self.mistakes {
            // A kind that only the other direction needs is not an error here.
            if fields.contains(.kind(UInt8.self, [.request: 1])) || fields.contains(.kind(UInt8.self, [.response: 1])) {
                continue
            }
            let inRequest = #expect(throws: LayoutError.self) {
                try FrameLayout(validating: fields, response: good)
            }
            #expect(inRequest?.field == "request " + field)
            let inResponse = #expect(throws: LayoutError.self) {
                try FrameLayout(validating: good, response: fields)
            }
            #expect(inResponse?.field == "response " + field)
        }
    }

    @Test func errorNamesTheInvalidRole() {
        let plain = FrameLayout {
            Self.length
            Field.body
        }
        func role(in layout: FrameLayout, _ declare: (inout FrameLayout.Roles) -> Void) -> String? {
            #expect(throws: LayoutError.self) { try layout.validatingRoles(declare) }?.field
        }
        #expect(role(in: plain) { $0.ping = 1 } == "role ping")
        #expect(role(in: plain) { $0.push = .types(1...2) } == "role push")
        #expect(role(in: plain) { $0.cancel = 1 } == "role cancel")
        #expect(role(in: plain) { $0.success = .statuses(1...1) } == "role success")
        #expect(role(in: plain) { $0.serials = 1... } == "role serials")
        #expect(role(in: Layouts.acme) { $0.ping = 0x10000 } == "role ping")
        #expect(role(in: Layouts.acme) { $0.push = .types(1...0x10000) } == "role push")
        #expect(role(in: Layouts.acme) { $0.push = .types(0x10000...) } == "role push")
        #expect(role(in: Layouts.acme) { ($0.ping, $0.cancel) = (1, 1) } == "role cancel")
        #expect(role(in: Layouts.acme) { $0.serials = 1...0x1_0000_0000 } == "role serials")
    }

    @Test func serialsMayBeAnyRangeWithinTheirField() {
        let layout = FrameLayout {
            Field.serial(UInt16.self)
            Self.length
            Field.body
        }
        #expect(layout.matching == .serial(1...0xffff))
        #expect(layout.roles { $0.serials = 50... }.matching == .serial(50...0xffff))
        #expect(layout.roles { $0.serials = 0...7 }.matching == .serial(0...7))
        let some: ClosedRange<SerialNumber> = 5...6
        #expect(layout.roles { $0.serials = some }.matching == .serial(5...6))
        let open: PartialRangeFrom<SerialNumber> = 9...
        #expect(layout.roles { $0.serials = open }.matching == .serial(9...0xffff))
    }

    @Test func rolesReplaceEarlierRoles() throws {
        let layout = Layouts.acme.roles { $0.push = 7 }
        #expect(layout.cancelFrame(for: 1, type: 3) == nil)
        #expect(layout.matching == .serial(1...0xffff_ffff))
        #expect(layout.pong(answering: Frame(.ping)) == nil)
    }

    @Test func layoutIsBuiltWithLoopsAndConditions() throws {
        func layout(isChecked: Bool, padding: Int) -> FrameLayout {
            FrameLayout {
                [Field.serial(UInt8.self), Self.length]
                for _ in 0..<padding { Field.reserved(1) }
                if isChecked { Field.constant([1]) } else { Field.constant([2]) }
                Field.body
                if isChecked { Field.checksum(.crc32, over: .body) }
            }
        }
        #expect(try layout(isChecked: true, padding: 2).encoded(Frame(.request)) == hex("00 00000000 0000 01 00000000"))
        #expect(try layout(isChecked: false, padding: 0).encoded(Frame(.request)) == hex("00 00000000 02"))
    }

    @Test func invalidDeclarationStopsTheProgramAndNamesTheField() async throws {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FrameLayout {
                Field.type(width: 8)
                Field.body
            }
        }
        let output = String(decoding: try #require(result).standardErrorContent, as: UTF8.self)
        #expect(output.contains("field 1, type (8 bytes)"))
        // The line of the declaration, not the line that detects the error.
        #expect(output.contains("LayoutValidationTests.swift:"))
    }

    @Test func invalidRoleStopsTheProgramAndNamesTheLine() async throws {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = Layouts.acme.roles { ($0.ping, $0.push) = (1, 1) }
        }
        let output = String(decoding: try #require(result).standardErrorContent, as: UTF8.self)
        #expect(output.contains("LayoutValidationTests.swift:") && output.contains("role push"))
    }

    @Test func roleOutsideItsFieldStopsTheProgram() async {
        await #expect(processExitsWith: .failure) { _ = Layouts.acme.roles { $0.ping = 0x10000 } }
        await #expect(processExitsWith: .failure) { _ = Layouts.acme.roles { $0.push = .types(5..<5) } }
    }

    @Test(arguments: [Int.min, -1, 0, 11])
    func limitBelowTheSmallestFrameIsTheSmallestFrame(limit: Int) {
        var layout = FrameLayout.standard
        layout.maximumFrameSize = limit
        #expect(layout.maximumFrameSize == 12)
    }

    /// Regression: a range of bits beyond the 63rd trapped in the standard library, without the name of the role.
    @Test func bitsThatNoFieldHasAreReportedWithTheirRole() {
        let roles: [Role] = [
            .bits(0...64), .bits(64...), .bits(-1...3), .bits(Int.min ... .max), .bits(5...Int.max), .bits(..<0),
            .bits(0..<Int.max), .bits(...Int.max), .bit(.max), .bit(.min),
        ]
        for role in roles {
            let error = #expect(throws: LayoutError.self) {
                try FrameLayout.standard.validatingRoles { $0.failure = role }
            }
            #expect(error?.description.hasPrefix("role failure: ") == true)
        }
    }
}
