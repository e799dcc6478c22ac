import Testing
import Trunkline

struct LayoutPrintingTests {
    /// Everything that a table can show, once. The two directions differ.
    private static let odd = FrameLayout {
        Field.constant(request: [0xca, 0xfe], response: [0xbe, 0xef])
        Field.type(UInt8.self)
        Field.length(width: 3, counting: .rest.plus(-1), order: .littleEndian)
        Field.serial(UInt64.self, order: .littleEndian)
        Field.status(UInt16.self)
        Field.integer("flag|s", UInt8.self, default: 3, order: .littleEndian)
        Field.reserved(2)
        Field.checksum(.crc32, over: .body, order: .littleEndian)
        Field.body
        Field.checksum(Checksum("digest", width: 3) { _ in [1, 2, 3] }, over: .headerAndBody, order: .littleEndian)
        Field.constant([UInt8](repeating: 0, count: 17))
        Field.type(UInt8.self)
    }

    @Test func tableHasEveryFieldWithItsOffsetAndSize() {
        #expect(
            Layouts.acme.byteTable == """
                | offset | size | field |
                |---|---|---|
                | 0 | 2 | constant ca fe |
                | 2 | 2 | type |
                | 4 | 4 | serial |
                | 8 | 4 | length of the body |
                | 12 | n | body |
                | 12+n | 4 | adler32 of the body |

                """
        )
    }

    @Test func differentDirectionsHaveATableEach() {
        func table(_ magic: String) -> String {
            """
            | offset | size | field |
            |---|---|---|
            | 0 | 2 | constant \(magic) |
            | 2 | 1 | type |
            | 3 | 3 | length of everything after it minus 1, little-endian |
            | 6 | 8 | serial, little-endian |
            | 14 | 2 | status |
            | 16 | 1 | flag\\|s, 3 unless set |
            | 17 | 2 | reserved, zeros |
            | 19 | 4 | crc32 of the body, little-endian |
            | 23 | n | body |
            | 23+n | 3 | digest of header and body |
            | 26+n | 17 | constant 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 … |
            | 43+n | 1 | type again |

            """
        }
        let both = "Request:\n\n" + table("ca fe") + "\nResponse:\n\n" + table("be ef")
        #expect(Self.odd.byteTable == both)
        #expect((Self.odd.serverSide() as? FrameLayout)?.byteTable == both)
    }

    /// The interop tests run such a script in Wireshark itself.
    @Test func dissectorIsTheOneThatWiresharkRan() {
        #expect(Layouts.acme.wiresharkDissector(name: "acme", port: 9000) == Self.dissector)
    }

    @Test func dissectorReadsBothDirectionsAndEveryByteOrder() {
        let layout = Self.odd.roles {
            $0.ping = 1
            $0.push = .types(2...9)
            $0.cancel = 10
            $0.success = 200
        }
        let text = layout.wiresharkDissector(name: "odd", port: 1)
        for line in [
            "local length = buffer(at + 3, 3):le_uint()",
            // 44 bytes surround the body; 38 of them come after the length, which counts one byte less.
            "return length + 7",
            "tree:add_le(f[\"serial\"], frame(6, 8))",
            "seen.serial = frame(6, 8):le_uint64()",
            "[\"flag_s\"] = ProtoField.uint8(\"odd.flag_s\", \"flag|s\", base.DEC_HEX),",
            "tree:add(f[\"digest\"], frame(23 + n, 3))",
            "if (seen.type >= 2 and seen.type <= 9) then return \"push\" end",
            "if kind == \"response\" and not (seen.status == 200) then return \"error response\" end",
        ] {
            #expect(text.contains(line), "\(line)")
        }
    }

    /// A length of varying width, which moves the fields behind it, and everything else that a field can state.
    private static let moving = FrameLayout {
        Field.kind(UInt8.self, [.push: 2, .request: 0, .response: 1])
        Field.varintLength(counting: .rest)
        Field.integer("flags", UInt16.self, order: .littleEndian)
        Field.bytes("token", 2, default: [1, 2])
        Field.bytes("key", 1)
        Field.body(sizes: 1...1000)
        Field.serial(UInt16.self)
        Field.integer("more", UInt8.self)
    }
    .roles {
        $0.part = .field("more", 1...)
        $0.failure = .bit(9, of: "flags")
    }

    @Test func tableHasTheOffsetsBehindALengthOfVaryingWidth() {
        #expect(
            Self.moving.byteTable == """
                | offset | size | field |
                |---|---|---|
                | 0 | 1 | kind: 0 request, 1 response, 2 push |
                | 1 | v | length of everything after it, 7 bits per byte, little-endian |
                | 1+v | 2 | flags, little-endian |
                | 3+v | 2 | token, 01 02 unless set |
                | 5+v | 1 | key |
                | 6+v | n | body of 1 to 1000 bytes |
                | 6+v+n | 2 | serial |
                | 8+v+n | 1 | more |

                """
        )
    }

    @Test func tableHasTheSizesOfBodies() throws {
        func row(_ body: Field) throws -> Bool {
            try FrameLayout(validating: [.length(UInt32.self, counting: .body), body]).byteTable
                .hasSuffix("| 4 | n | body of 16 bytes |\n")
        }
        #expect(try row(.body(sizes: 16...16)))
        #expect(try !row(.body(sizes: 16...)))
        let open = FrameLayout {
            Field.length(UInt32.self, counting: .body)
            Field.body(sizes: 4...)
        }
        #expect(open.byteTable.hasSuffix("| 4 | n | body of 4 bytes or more |\n"))
    }

    @Test func requestsAndResponsesWithDifferentFieldsHaveATableEach() {
        let table = FrameLayout.checked.byteTable
        #expect(
            table.hasPrefix(
                "Request:\n\n| offset | size | field |\n|---|---|---|\n| 0 | 4 | type |\n| 4 | 4 | serial |"
            )
        )
        #expect(table.contains("Response:\n"))
        #expect(table.contains("| 8 | 4 | status |\n| 12 | 4 | length of the body |\n| 16 | n | body |"))
        #expect(table.hasSuffix("| 20+n | 4 | type again |\n"))
    }

    @Test func dissectorKnowsEveryTypeThatARoleHas() {
        let layout = RoleTests.flagged.roles {
            $0.part = 7
            $0.closing = 9
            $0.requests = 3...5
        }
        let script = layout.wiresharkDissector(name: "parts", port: 1)
        #expect(script.contains("not (seen.type >= 3 and seen.type <= 5 or seen.type == 9) then"))
        #expect(script.contains("not (seen.type >= 3 and seen.type <= 5 or seen.type == 9 or seen.type == 7) then"))
    }

    @Test func dissectorRecognizesPartsInBothDirectionsByTheirType() {
        let script = FrameLayout.standard.wiresharkDissector(name: "standard", port: 1)
        let line = "if seen.type == 1028 then return \"part\" end"
        #expect(script.split(separator: line, omittingEmptySubsequences: false).count == 3)
    }

    @Test func dissectorKnowsEveryRole() {
        let moving = Self.moving.wiresharkDissector(name: "moving", port: 1)
        let layout = FrameLayout {
            Field.length(UInt32.self, counting: .wholeFrame)
            Field.type(UInt32.self)
            Field.status(UInt32.self)
            Field.serial(UInt32.self)
            Field.integer("left", UInt64.self)
            Field.body
        }
        .roles {
            $0.ping = 0x15
            $0.push = 5
            $0.response = .bit(31)
            $0.goAway = .field("left", 7)
            $0.requests = 1...9
            $0.kind = { $0.kind }
        }
        let marked = layout.wiresharkDissector(name: "marked", port: 1)
        for (text, line) in [
            (moving, "local kinds = { [0] = \"request\", [1] = \"response\", [2] = \"push\" }"),
            (moving, "if kind == \"response\" and frame(8 + v + n, 1):uint() >= 1 then return \"part\" end"),
            (
                moving,
                "if kind == \"response\" and frame(2 + v, 1):bitfield(6, 1) == 1 then return \"error response\" end"
            ),
            (moving, "return length + 1 + v"),
            (marked, "local answers = frame(4, 1):bitfield(0, 1) == 1"),
            (marked, "if frame(4, 1):bitfield(0, 1) == 1 then seen.type = seen.type - 2147483648 end"),
            (marked, "if seen.type == 21 then return answers and \"pong\" or \"ping\" end"),
            (marked, "if (frame(16, 8):uint64():tonumber() == 7) and not answers then return \"goAway\" end"),
            (marked, "if (seen.type == 5) and not answers then return \"push\" end"),
            (marked, "if kind ~= \"push\" and not (seen.type >= 1 and seen.type <= 9) then return \"unknown\" end"),
            (marked, "-- A closure of the program may return another kind."),
        ] {
            #expect(text.contains(line), "\(line)")
        }
    }

    @Test func dissectorNamesRequests() {
        let layout = FrameLayout.standard.namingRequests([0x411: "Set\"User\n", 0x410: "GetUser"])
        let text = layout.wiresharkDissector(name: "acme", port: 1)
        for lines in [
            "local request_names = {\n    [1040] = \"GetUser\",\n    [1041] = \"Set\\\"User\\\\n\",\n}\n",
            """
                    if seen.type then text = text .. string.format(" type 0x%x", seen.type) end
                    local name = is_request and request_names[seen.type]
                    if name then text = text .. " (" .. name .. ")" end
                    if seen.serial then
            """,
        ] {
            #expect(text.contains(lines), "\(lines)\n\(text)")
        }
        #expect(!FrameLayout.standard.wiresharkDissector(name: "acme", port: 1).contains("request_names"))
    }

    @Test func namesThatWiresharkDoesNotAcceptAreChanged() {
        let layout = FrameLayout {
            Field.type(UInt8.self)
            Field.integer("type", UInt8.self)
            Field.integer("a\"b\\\n", UInt8.self)
            Field.integer("größe", UInt8.self)
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        let text = layout.wiresharkDissector(name: "My Protocol", port: 1)
        for line in [
            #"local protocol = Proto("my_protocol", "my_protocol")"#,
            #"["type"] = ProtoField.uint8("my_protocol.type", "type", base.HEX_DEC),"#,
            #"["type_2"] = ProtoField.uint8("my_protocol.type_2", "type", base.DEC_HEX),"#,
            #"["a_b__"] = ProtoField.uint8("my_protocol.a_b__", "a\"b\\\x0a", base.DEC_HEX),"#,
            #"["gr__e"] = ProtoField.uint8("my_protocol.gr__e", "größe", base.DEC_HEX),"#,
        ] {
            #expect(text.contains(line), "\(line)")
        }
    }

    private static let dissector = """
        -- Shows acme on TCP port 9000. Written by Trunkline from a FrameLayout.
        local protocol = Proto("acme", "acme")

        local f = {
            ["constant"] = ProtoField.bytes("acme.constant", "constant"),
            ["type"] = ProtoField.uint16("acme.type", "type", base.HEX_DEC),
            ["serial"] = ProtoField.uint32("acme.serial", "serial", base.DEC_HEX),
            ["length"] = ProtoField.uint32("acme.length", "length", base.DEC_HEX),
            ["body"] = ProtoField.bytes("acme.body", "body"),
            ["adler32"] = ProtoField.uint32("acme.adler32", "adler32", base.HEX),
            kind = ProtoField.string("acme.kind", "kind"),
        }
        for _, field in pairs(f) do table.insert(protocol.fields, field) end

        local bad_length = ProtoExpert.new("acme.bad_length", "illegal length",
            expert.group.MALFORMED, expert.severity.ERROR)
        protocol.experts = { bad_length }

        -- The size of the frame at `at`: nil until its length is there, false for an impossible length.
        local function size_of_frame(buffer, at)
            if buffer:len() < at + 12 then return nil end
            local length = buffer(at + 8, 4):uint()
            if length < 0 or length > 16777200 then return false end
            return length + 16
        end

        local function dissect_frame(frame, tree)
            local n = frame:len() - 16
            local seen = { n = n }
            tree:add(f["constant"], frame(0, 2))
            tree:add(f["type"], frame(2, 2))
            tree:add(f["serial"], frame(4, 4))
            tree:add(f["length"], frame(8, 4))
            if n > 0 then tree:add(f["body"], frame(12, n)) end
            tree:add(f["adler32"], frame(12 + n, 4))
            seen.type = frame(2, 2):uint()
            seen.serial = frame(4, 4):uint64()
            return seen
        end

        -- What a frame is for.
        local function kind_of_request(frame, seen)
            local kind, answers = "request", false
            if seen.type == 0 then return answers and "pong" or "ping" end
            if seen.type == 2 and not answers then return "cancel" end
            return kind
        end

        local function kind_of_response(frame, seen)
            local kind, answers = "response", false
            if seen.type == 0 then return answers and "pong" or "ping" end
            if seen.type == 2 and not answers then return "cancel" end
            if (seen.type == 1) then return "push" end
            return kind
        end

        function protocol.dissector(buffer, pinfo, tree)
            local is_request = pinfo.dst_port == pinfo.match_uint
            local size_of, dissect = size_of_frame, dissect_frame
            local at, texts = 0, {}
            while at < buffer:len() do
                local size = size_of(buffer, at)
                if size == false then
                    tree:add(protocol, buffer(at)):add_proto_expert_info(bad_length)
                    table.insert(texts, "illegal length")
                    at = buffer:len()
                    break
                end
                local missing = size and at + size - buffer:len()
                if missing == nil or missing > 0 then
                    pinfo.desegment_offset = at
                    pinfo.desegment_len = missing or DESEGMENT_ONE_MORE_SEGMENT
                    break
                end
                local frame = buffer(at, size)
                local subtree = tree:add(protocol, frame)
                local seen = dissect(frame, subtree)
                local text = (is_request and kind_of_request or kind_of_response)(frame, seen)
                subtree:add(f["kind"], text):set_generated()
                if seen.type then text = text .. string.format(" type 0x%x", seen.type) end
                if seen.serial then text = text .. " serial " .. tostring(seen.serial) end
                if seen.status and not is_request then text = text .. " status " .. tostring(seen.status) end
                subtree:append_text(": " .. text)
                table.insert(texts, text)
                at = at + size
            end
            if at > 0 then
                pinfo.cols.protocol = protocol.name
                pinfo.cols.info:set(table.concat(texts, "; ") .. " ")
                -- What is dissected next of the same segment adds to it.
                pinfo.cols.info:fence()
            end
            return buffer:len()
        end

        DissectorTable.get("tcp.port"):add(9000, protocol)

        """
}
