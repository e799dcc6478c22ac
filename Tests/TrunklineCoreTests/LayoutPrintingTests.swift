import Testing
import TrunklineCore

struct LayoutPrintingTests {
    /// Everything that a table can say, once; the directions differ.
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

    @Test func directionsThatDifferHaveATableEach() {
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

    /// What Wireshark itself makes of such a text is in the interop tests.
    @Test func dissectorIsAsItWasWhenWiresharkRanIt() {
        #expect(Layouts.acme.wiresharkDissector(name: "acme", port: 9000) == Self.dissector)
    }

    @Test func dissectorTakesBothDirectionsAndEveryByteOrder() {
        let text = Self.odd.roles(ping: 1, push: 2...9, cancel: 10, success: 200).wiresharkDissector(
            name: "odd",
            port: 1
        )
        for line in [
            "local length = buffer(at + 3, 3):le_uint()",
            // 44 bytes around the body, of which 38 come after the length, and it counts one less.
            "return length + 7",
            "tree:add_le(f[\"serial\"], frame(6, 8))",
            "seen.serial = frame(6, 8):le_uint64()",
            "[\"flag_s\"] = ProtoField.uint8(\"odd.flag_s\", \"flag|s\", base.DEC_HEX),",
            "tree:add(f[\"digest\"], frame(23 + n, 3))",
            "if seen.type >= 0x2 and seen.type <= 0x9 then return \"push\" end",
            "if not (seen.status == 0xc8) then return \"rejection\" end",
        ] {
            #expect(text.contains(line), "\(line)")
        }
    }

    @Test func namesThatWiresharkDoesNotTakeAreChanged() {
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

        -- The size of the frame that starts at `at`: nil until its length is there, false for an impossible length.
        local function size_of_frame(buffer, at)
            if buffer:len() < at + 12 then return nil end
            local length = buffer(at + 8, 4):uint()
            if length < 0 or length > 16777200 then return false end
            return length + 16
        end

        local function dissect_frame(frame, tree)
            local seen = {}
            local n = frame:len() - 16
            tree:add(f["constant"], frame(0, 2))
            tree:add(f["type"], frame(2, 2))
            seen.type = frame(2, 2):uint()
            tree:add(f["serial"], frame(4, 4))
            seen.serial = frame(4, 4):uint64()
            tree:add(f["length"], frame(8, 4))
            if n > 0 then tree:add(f["body"], frame(12, n)) end
            tree:add(f["adler32"], frame(12 + n, 4))
            return seen
        end

        -- What the frame is, by its type, and for a response by its status.
        local function kind_of(seen, is_request)
            if seen.type == 0x0 then return "ping" end
            if seen.type == 0x2 then return "cancel" end
            if is_request then return "request" end
            if seen.type == 0x1 then return "push" end
            return "response"
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
                local kind = kind_of(seen, is_request)
                subtree:add(f["kind"], kind):set_generated()
                local text = kind
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
