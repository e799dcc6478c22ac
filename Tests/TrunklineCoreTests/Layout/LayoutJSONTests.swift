import SampleLayouts
import Testing
import TrunklineDiagnostics

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// Layouts that are described in JSON.
struct LayoutJSONTests {
    /// Everything that tells two layouts apart, as text.
    private func description(_ layout: FrameLayout) -> [String] {
        [
            layout.byteTable, "\(layout.request.shape.fields)", "\(layout.response.shape.fields)",
            "\(layout.declared)", "\(layout.maximumFrameSize)", "\(layout.requestNames.sorted { $0.key < $1.key })",
            "\(layout.ping(number: 3).map { "\($0) \($0.body)" } ?? "")",
        ]
    }

    @Test(arguments: [
        (
            FrameLayout.standard.namingRequests([0x410: "GetUser", 1041: "SetUser"]),
            """
            {
              "fields": [{"type": 4}, {"serial": 4}, {"length": 4, "counting": "body"}, {"body": true}],
              "roles": {
                "ping": 1, "push": "0x2...0x400", "cancel": "0x401", "part": "0x404", "window": "0x405", "serials": "50..."
              },
              "namingRequests": {"comment": "two of them", "0x410": "GetUser", "1041": "SetUser"}
            }
            """
        ),
        (
            .checked(over: .headerAndBody),
            """
            {
              "request": [
                {"type": 4}, {"serial": 4}, {"length": 4, "counting": "body"}, {"body": true},
                {"checksum": "crc32", "over": "headerAndBody"}, {"type": 4}
              ],
              "response": [
                {"type": 4}, {"serial": 4}, {"status": 4}, {"length": 4, "counting": "body"}, {"body": true},
                {"checksum": "crc32", "over": "headerAndBody"}, {"type": 4}
              ],
              "roles": {"ping": 0, "push": 1, "cancel": 2, "success": 200, "requests": "3...", "serials": "50..."}
            }
            """
        ),
        (
            Protocols.modbus,
            """
            {
              "fields": [
                {"serial": 2}, {"constant": "0000"}, {"length": 2, "counting": "rest"},
                {"integer": 1, "name": "unit", "default": "0xff"}, {"type": 1}, {"body": true}
              ],
              "roles": {
                "failure": {"bit": 7}, "failureCode": {"body": 1}, "serials": "0...",
                "responsesRepeat": ["type", {"field": "unit"}]
              },
              "maximumFrameSize": 260
            }
            """
        ),
        (
            Protocols.dns,
            """
            {
              "fields": [
                {"length": 2, "counting": "rest"}, {"serial": 2}, {"integer": 2, "name": "flags", "default": "0x0100"},
                {"body": "8..."}
              ],
              "roles": {
                "heartbeat": {"body": "00010000000000000000020001"}, "response": {"bit": 15, "of": "flags"},
                "failure": {"bits": "0...3", "of": "flags"}, "serials": "16..."
              }
            }
            """
        ),
        (
            Protocols.smpp,
            """
            {
              "fields": [
                {"length": 4, "counting": "wholeFrame"}, {"type": 4}, {"status": 4}, {"serial": 4}, {"body": true}
              ],
              "roles": {
                "ping": "0x15", "response": {"bit": 31}, "goAway": 6, "closing": 6, "serials": "2...0x7fffffff"
              }
            }
            """
        ),
        (
            Protocols.diameter,
            """
            {
              "fields": [
                {"constant": "01"}, {"length": 3, "counting": "wholeFrame"}, {"integer": 1, "name": "flags"}, {"type": 3},
                {"integer": 4, "name": "application"}, {"serial": 4}, {"integer": 4, "name": "endToEnd"}, {"body": true}
              ],
              "roles": {
                "ping": 280, "response": {"bit": 7, "of": "flags", "isSet": false}, "goAway": 282,
                "failure": {"bit": 5, "of": "flags"}, "serials": "2..."
              }
            }
            """
        ),
        (
            MarkedLayouts.fields,
            """
            {
              "fields": [
                {"type": 1}, {"serial": 2, "order": "littleEndian"}, {"integer": 1, "name": "flags"},
                {"integer": 1, "name": "source"}, {"integer": 2, "name": "wait"}, {"length": 2, "counting": "rest"},
                {"body": true}
              ],
              "roles": {
                "ping": 1, "pong": 2, "push": {"field": "source", "numbers": "7...9"}, "cancel": 3,
                "part": {"bit": 0, "of": "flags"}, "goAway": 8, "retryAfter": {"seconds": "wait"}, "closing": 8,
                "failure": {"bit": 3, "of": "flags"}, "requests": "0x10...0x7f", "serials": "50..."
              },
              "maximumFrameSize": 1000
            }
            """
        ),
        (
            MarkedLayouts.typeBits,
            """
            {
              "fields": [
                {"length": "varint", "counting": "wholeFrame"}, {"type": 2}, {"serial": 3}, {"integer": 4, "name": "wait"},
                {"body": true}, {"checksum": "adler32", "over": "headerAndBody"}
              ],
              "roles": {
                "ping": 1, "push": "0x100...0x1ff", "response": {"bit": 15}, "part": {"bit": 13}, "goAway": "0x200",
                "retryAfter": {"milliseconds": "wait"}, "closing": "0x200", "failure": {"bit": 14},
                "requests": "0x100...0xfff", "serials": "2..."
              },
              "requiringBody": "0x300...0x3ff",
              "maximumFrameSize": 1000
            }
            """
        ),
        (
            MarkedLayouts.kinds,
            """
            {
              "fields": [
                {"constant": "ab"}, {"length": "varint", "counting": "rest", "order": "bigEndian"},
                {
                  "kind": 2, "order": "littleEndian",
                  "numbers": {
                    "request": 1, "response": 2, "part": 3, "push": 4, "ping": 5, "pong": 6, "cancel": 7, "goAway": 8
                  }
                },
                {"type": 1}, {"serial": 4}, {"status": 1}, {"integer": 1, "name": "wait"}, {"body": true}, {"type": 1}
              ],
              "requiringBody": "0x20...0x2f",
              "roles": {"ping": 1, "cancel": 3, "retryAfter": {"seconds": "wait"}, "requests": "0x10...0x2f"},
              "maximumFrameSize": 1000
            }
            """
        ),
        (
            FrameLayout {
                Field.constant(request: [0x3F], response: [0x21])
                Field.type(UInt8.self)
                Field.bytes("token", 2, default: [1, 2])
                Field.contentType(UInt8.self, default: 3)
                Field.reserved(2)
                Field.length(width: 3, counting: .body.plus(-1), order: .littleEndian)
                Field.checksum(.fletcher16, over: .body, order: .littleEndian)
                Field.body(sizes: 4...6)
            },
            """
            {
              "comment": "what the others do not have",
              "fields": [
                {"constant": {"request": "3f", "response": "21"}}, {"type": 1, "comment": "a byte"},
                {"bytes": 2, "name": "token", "default": "0102"}, {"contentType": 1, "default": 3}, {"reserved": 2},
                {"length": 3, "counting": "body", "plus": -1, "order": "littleEndian"},
                {"checksum": "fletcher16", "over": "body", "order": "littleEndian"}, {"body": "4...6"}
              ]
            }
            """
        ),
    ])
    func aLayoutInJSONIsThatInSwift(layout: FrameLayout, text: String) throws {
        #expect(description(try FrameLayout(json: text)) == description(layout))
    }

    private static let fields = #"{"type": 1}, {"length": 1, "counting": "body"}, {"body": true}"#

    @Test(arguments: [
        ("", "line 1: it is not JSON"),
        ("{\n  \"fields\": [\n    {\"type\" 1}\n  ]\n}", "line 3: it is not JSON"),
        ("[]", "the layout: an object is expected"),
        ("{}", "fields: the member is missing"),
        (#"{"request": []}"#, "response: the member is missing"),
        (#"{"fields": 1}"#, "fields: a list is expected"),
        (#"{"fields": [1]}"#, "fields[0]: an object is expected"),
        (#"{"fields": [{"order": "bigEndian"}]}"#, "fields[0]: a field has exactly one of the members constant, type"),
        (#"{"fields": [{"type": 1, "serial": 1}]}"#, "fields[0]: a field has exactly one of the members"),
        (#"{"fields": [{"type": "one"}]}"#, "fields[0].type: an integer from -9223372036854775808 to"),
        (#"{"fields": [{"type": 9}]}"#, "field 1, type (9 bytes): "),
        (#"{"fields": [{"type": 1, "wide": 1}]}"#, "fields[0].wide: unknown member"),
        (#"{"fields": [{"type": 1, "type": 1}]}"#, "fields[0].type: the member is there twice"),
        (#"{"fields": [{"type": 1, "order": "little"}]}"#, #"fields[0].order: one of these is expected: "bigEndian""#),
        (#"{"fields": [{"integer": 1}]}"#, "fields[0].name: the member is missing"),
        (#"{"fields": [{"constant": "abc"}]}"#, "fields[0].constant: an even number of hexadecimal digits"),
        (#"{"fields": [{"length": 1}]}"#, "fields[0].counting: the member is missing"),
        (
            #"{"fields": [{"checksum": "crc16", "over": "body"}]}"#,
            #"fields[0].checksum: one of these is expected: "crc32""#
        ),
        (#"{"fields": [{"kind": 3, "numbers": {"request": 1}}]}"#, "fields[0].kind: a kind is 1, 2, 4 or 8 bytes wide"),
        (#"{"fields": [{"kind": 1, "numbers": {"reply": 1}}]}"#, "fields[0].numbers.reply: unknown member"),
        (#"{"fields": [{"body": "4...2"}]}"#, "fields[0].body: an integer or a range of them is expected"),
        (#"{"fields": [\#(fields)], "role": {}}"#, "role: unknown member"),
        (#"{"fields": [\#(fields)], "roles": {"pings": 1}}"#, "roles.pings: unknown member"),
        (#"{"fields": [\#(fields)], "roles": {"ping": -1}}"#, "roles.ping: an integer from 0 to 4294967295"),
        (#"{"fields": [\#(fields)], "roles": {"ping": 256}}"#, "role ping: "),
        (#"{"fields": [\#(fields)], "roles": {"push": {}}}"#, "roles.push: a type, a range of types"),
        (#"{"fields": [\#(fields)], "roles": {"push": {"bit": 99}}}"#, "role push: "),
        (#"{"fields": [\#(fields)], "roles": {"push": {"bits": "1...0"}}}"#, "roles.push.bits: an integer or a range"),
        (#"{"fields": [\#(fields)], "requiringBody": 256}"#, "role bodies: "),
        (#"{"fields": [\#(fields)], "maximumFrameSize": 1.5}"#, "maximumFrameSize: an integer from"),
        (#"{"fields": [\#(fields)], "namingRequests": {"Get": "1"}}"#, "namingRequests.Get: an integer from 0 to 429"),
        (#"{"fields": [\#(fields)], "namingRequests": {"1": 1}}"#, "namingRequests.1: a text is expected"),
        (
            #"{"fields": [\#(fields)], "namingRequests": {"1": "a", "0x01": "b"}}"#,
            "namingRequests.0x01: the type has a name already"
        ),
    ])
    func aMistakeInJSONIsNamed(text: String, message: String) {
        let error = #expect(throws: LayoutError.self) { try FrameLayout(json: text) }
        #expect(error?.description.hasPrefix(message) == true, "\(error?.description ?? "")")
    }

    @Test func anyBytesAreNoMoreThanAnError() {
        var random = SeededGenerator(seed: 7)
        let text = Array(#"{"fields":[\#(Self.fields)],"roles":{"ping":"0x01","push":{"bits":"1...2"}}}"#.utf8)
        for _ in 0..<2000 {
            var bytes = text
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let place = Int.random(in: bytes.indices, using: &random)
                bytes[place] = text[Int.random(in: text.indices, using: &random)]
            }
            _ = try? FrameLayout(json: String(decoding: bytes, as: UTF8.self))
        }
    }
}
