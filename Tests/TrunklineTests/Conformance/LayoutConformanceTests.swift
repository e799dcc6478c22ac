import SampleLayouts
import Testing
import Trunkline

@testable import TrunklineTesting

private typealias Sample = CodecConformance.Sample

/// Layouts with every way to tell frames apart, and layouts of real protocols, keep every rule.
struct LayoutConformanceTests {
    private func expectConformance(
        of layout: FrameLayout,
        _ samples: [Sample],
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let report = CodecConformance(of: layout, samples: samples).abridged.check()
        #expect(report.violations.isEmpty, "\(report)", sourceLocation: sourceLocation)
        #expect(report.unchecked.isEmpty, "\(report)", sourceLocation: sourceLocation)
        #expect(report.inputs > 1000, sourceLocation: sourceLocation)
    }

    private func frame(
        _ kind: Frame.Kind,
        _ type: UInt32,
        _ serial: SerialNumber = 0,
        status: UInt32 = 0,
        with fields: [String: UInt64] = [:],
        body: Bytes = Bytes()
    ) -> Frame {
        var frame = Frame(kind, type: type, serial: serial, status: status, body: body)
        for (name, value) in fields { frame[name] = value }
        return frame
    }

    private func errorResponse(_ type: UInt32, _ serial: SerialNumber, status: UInt32 = 0, body: Bytes = Bytes())
        -> Frame
    {
        Frame(.response, type: type, serial: serial, status: status, isErrorResponse: true, body: body)
    }

    // MARK: Marks

    @Test func marksInFieldsKeepEveryRule() throws {
        let layout = MarkedLayouts.fields
        let request = frame(.request, 0x10, 50, body: "question")
        let parts = [
            frame(.part, 0x10, 50, body: "an"), frame(.part, 0x10, 50), frame(.response, 0x10, 50, body: "swer"),
        ]
        try expectConformance(
            of: layout,
            [
                .init(request), .init(frame(.response, 0x10, 50, body: "answer"), answering: request),
                .init(parts, answering: [request]),
                .init(
                    errorResponse(0x10, 50, body: "no"),
                    answering: request,
                    bytes: hex("10 3200 08 00 0000 0002 6e6f")
                ),
                .init(frame(.push, 0x40, with: ["source": 9], body: "news")),
                .init(frame(.goAway, 8, with: ["wait": 5]), bytes: hex("08 0000 00 00 0005 0000")),
                .init(#require(layout.closingFrame())),
                .refused(hex("0f 3200 00 00 0000 0000"), with: .unknownType),
                .refused(hex("0f 3200 00 00 0000 0000"), with: .unknownType, receivedBy: .server),
            ]
        )
    }

    @Test func marksInTheTypeBehindAVarintLengthKeepEveryRule() throws {
        let layout = MarkedLayouts.typeBits
        let request = frame(.request, 0x100, 2, body: "question")
        // With this body the length of the frame takes two bytes.
        let long = Bytes([UInt8](repeating: 7, count: 200))
        try expectConformance(
            of: layout,
            [
                .init(request), .init(frame(.response, 0x100, 2, body: "answer"), answering: request),
                .init([frame(.part, 0x300, 2, body: long), frame(.response, 0x300, 2, body: "x")]),
                .init(errorResponse(0x300, 2)), .init(frame(.push, 0x100, 7, body: "news")),
                .init(frame(.goAway, 0x200, with: ["wait": 1500])), .init(#require(layout.closingFrame())),
            ]
        )
    }

    @Test func aFieldForTheKindKeepsEveryRule() {
        let request = frame(.request, 0x10, 1, body: "question")
        expectConformance(
            of: MarkedLayouts.kinds,
            [
                .init(request), .init(frame(.response, 0x10, 1, body: "answer"), answering: request),
                .init([frame(.part, 0x20, 1), frame(.part, 0x20, 1, body: "x"), frame(.response, 0x20, 1, body: "y")]),
                .init(errorResponse(0x20, 1, status: 9)), .init(frame(.push, 0x70, body: "news")),
                .init(frame(.goAway, 0x71, with: ["wait": 3]), bytes: hex("ab 0a 0800 71 00000000 00 03 71")),
                .refused(hex("ab 0a 0900 10 00000001 00 00 10"), with: .unknownType),
                .refused(hex("ab 0a 0200 30 00000001 00 00 30"), with: .unknownType),
                .refused(hex("ab 0a 0200 20 00000001 00 00 20"), with: .missingBody),
                .refused(hex("ab 0a 0200 20 00000001 00 00 21"), with: .repetitionMismatch),
            ]
        )
    }

    @Test func closuresAndResponsesWithOtherFieldsKeepEveryRule() {
        let request = frame(.request, 0x10, 9, body: "question")
        var response = frame(.response, 0x10, 9, status: 204, with: ["class": 0], body: "answer")
        response[bytes: "token"] = [1, 2]
        expectConformance(
            of: MarkedLayouts.closure,
            [
                .init(request), .init(response, answering: request), .init(errorResponse(0xFF, 9, status: 404)),
                .init([frame(.part, 0x20, 9, with: ["class": 2]), frame(.response, 0x20, 9, status: 200)]),
                .init(frame(.push, 5, with: ["class": 1], body: "news")),
                .init(frame(.goAway, 6, with: ["class": 3, "wait": 30])),
                .refused(hex("21 09 00c8 190000 04 0000000000000000 0000 0010 00000000"), with: .unknownType),
                .refused(hex("21"), with: .unexpectedBytes, receivedBy: .server),
            ]
        )
    }

    @Test func partsAndFailuresInOrderKeepEveryRule() {
        let request = frame(.request, 0x10, body: "question")
        expectConformance(
            of: MarkedLayouts.inOrder,
            [
                .init(request), .init(frame(.response, 0x10, body: "answer"), answering: request),
                .init([
                    frame(.part, 0x11, with: ["left": 2], body: "one"),
                    frame(.response, 0x11, with: ["left": 0], body: "two"),
                ]),
                .init(errorResponse(0x10, 0, body: "no")), .init(frame(.push, 0x30, body: "news")),
                .init(frame(.goAway, 2, body: "going")),
                .refused(hex("20 0000 02 6869"), with: .unknownType),
                .refused(hex("10 0000 01"), with: .illegalLength), .refused(hex("10 0000 00"), with: .missingBody),
            ]
        )
    }

    // MARK: Real protocols

    @Test func memcachedKeepsEveryRule() {
        let get = frame(.request, 0, 0x32, with: ["keyLength": 5, "vbucket": 1], body: "Hello")
        let missing = errorResponse(0, 0x32, status: 1, body: "Not found")
        expectConformance(
            of: Protocols.memcached,
            [
                .init(get), .init(frame(.response, 0, 0x32, with: ["cas": 1], body: "World"), answering: get),
                .init(missing, answering: get),
                .refused(hex("82 00 0000 00 00 0000 00000000 00000032 0000000000000000"), with: .unknownType),
            ]
        )
    }

    @Test func modbusKeepsEveryRule() {
        let read = frame(.request, 3, 0x1501, with: ["unit": 0xFF], body: Bytes(hex("006b 0003")))
        expectConformance(
            of: Protocols.modbus,
            [
                .init(read, bytes: hex("1501 0000 0006 ff 03 006b 0003")),
                .init(frame(.response, 3, 0x1501, body: Bytes(hex("06 022b 0000 0064"))), answering: read),
                .init(errorResponse(3, 0x1501, status: 2, body: [2]), answering: read), .init(frame(.request, 0x2B, 0)),
                .refused(hex("1501 0001"), with: .unexpectedBytes),
                .refused(hex("1501 0000 00ff"), with: .illegalLength, receivedBy: .server),
            ]
        )
    }

    /// Regression: if a body cannot consist of one byte, the kit reported that it cannot grow, and did
    /// not check limits.
    @Test func dnsKeepsEveryRule() {
        let question = Bytes(hex("0001 0000 0000 0000 076578616d706c6503636f6d00 0001 0001"))
        let query = frame(.request, 0, 0x1234, with: ["flags": 0x0100], body: question)
        expectConformance(
            of: Protocols.dns,
            [
                .init(query),
                .init(frame(.response, 0, 0x1234, with: ["flags": 0x8180], body: question), answering: query),
                .init(frame(.push, 0, 7, with: ["flags": 0x2000], body: question)),
                .refused(hex("000b"), with: .illegalLength), .refused(hex("0004"), receivedBy: .server),
            ]
        )
    }

    @Test func smppKeepsEveryRule() throws {
        let bind = frame(.request, 2, 2, body: "SMPP3TEST\0")
        try expectConformance(
            of: Protocols.smpp,
            [
                .init(bind), .init(frame(.response, 2, 2, body: "SMPP3TEST\0"), answering: bind),
                .init(errorResponse(0, 7, status: 3)), .init(frame(.push, 5, 7, body: [0])),
                .init(frame(.goAway, 6, 8)),
                .init(#require(Protocols.smpp.closingFrame())),
                .refused(hex("0000000f"), with: .illegalLength), .refused(hex("0000000f"), receivedBy: .server),
            ]
        )
    }

    @Test func diameterKeepsEveryRule() {
        let request = frame(.request, 272, 2, with: ["application": 4, "endToEnd": 9], body: "avps")
        expectConformance(
            of: Protocols.diameter,
            [
                .init(request),
                .init(frame(.response, 272, 2, with: ["endToEnd": 9], body: "avps"), answering: request),
                .init(errorResponse(272, 2), answering: request), .init(frame(.push, 258, 1, body: "avps")),
                .init(frame(.goAway, 282, 1)), .refused([2], with: .unexpectedBytes),
                .refused(hex("01 000013"), with: .illegalLength, receivedBy: .server),
            ]
        )
    }
}
