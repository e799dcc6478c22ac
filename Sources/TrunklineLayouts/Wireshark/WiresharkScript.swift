import TrunklineCore

extension FrameLayout {
    /// Returns the Lua source of a dissector with which Wireshark and tshark show this protocol.
    ///
    /// Save it as `acme.lua` in Wireshark's folder for personal Lua plugins, or pass it on the command line: `tshark -X
    /// lua_script:acme.lua -r capture.pcap`.
    ///
    /// The dissector shows every field under `acme.…`, joins frames that arrived in several segments, and shows the
    /// kind of each frame in the info column, with its type and the name of a request (``namingRequests(_:)``). It
    /// shows checksums but does not verify them, and it does not call closures of roles.
    ///
    /// - Parameters:
    ///   - name: The name of the protocol in display filters, in lower case. It must not be the name of a protocol that
    ///     Wireshark already supports. Characters other than ASCII letters, digits and underscores become underscores.
    ///   - port: The server's TCP port. Frames to it are requests; all others are responses and pushes.
    public func wiresharkDissector(name: String, port: UInt16) -> String {
        WiresharkScript(self, name: name, port: port).text
    }
}

/// The text of a dissector, in which n is the size of a frame's body and v that of a varint.
struct WiresharkScript {
    let layout: FrameLayout
    let name: String
    let port: UInt16
    private let names: WiresharkNames

    init(_ layout: FrameLayout, name: String, port: UInt16) {
        self.layout = layout
        self.name = wiresharkName(name.lowercased())
        self.port = port
        names = WiresharkNames([layout.request.shape, layout.response.shape])
    }

    var text: String {
        """
        -- Shows \(name) on TCP port \(port). Written by Trunkline from a FrameLayout.
        local protocol = Proto("\(name)", "\(name)")

        local f = {
        \(names.declarations(protocol: name))
            kind = ProtoField.string("\(name).kind", "kind"),
        }
        for _, field in pairs(f) do table.insert(protocol.fields, field) end

        local bad_length = ProtoExpert.new("\(name).bad_length", "illegal length",
            expert.group.MALFORMED, expert.severity.ERROR)
        protocol.experts = { bad_length }

        \(requestNames)\(functions)
        function protocol.dissector(buffer, pinfo, tree)
            local is_request = pinfo.dst_port == pinfo.match_uint
            local size_of, dissect = \(choice("size_of")), \(choice("dissect"))
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
                local text = \(choice("kind_of"))(frame, seen)
                subtree:add(f["kind"], text):set_generated()
                if seen.type then text = text .. string.format(" type 0x%x", seen.type) end\(namesRequest)
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

        DissectorTable.get("tcp.port"):add(\(port), protocol)

        """
    }

    private var requestNames: String {
        let names = layout.requestNames.sorted { $0.key < $1.key }
        if names.isEmpty { return "" }
        let entries = names.map { "    [\($0.key)] = \(luaString($0.value.escaped(upTo: 64))),\n" }
        return "local request_names = {\n\(entries.joined())}\n\n"
    }

    private var namesRequest: String {
        if layout.requestNames.isEmpty { return "" }
        return """

                    local name = is_request and request_names[seen.type]
                    if name then text = text .. " (" .. name .. ")" end
            """
    }

    private var functions: String {
        let (request, response) = (layout.request, layout.response)
        let size = "-- The size of the frame at `at`: nil until its length is there, false for an impossible length.\n"
        let texts = [
            (size, "size_of", self.size(request), self.size(response)),
            ("", "dissect", dissect(request.shape), dissect(response.shape)),
            ("-- What a frame is for.\n", "kind_of", kind(request.shape), kind(response.shape)),
        ].map { comment, name, request, response in
            if request == response { return "\(comment)local function \(name)_frame\(request)" }
            return "\(comment)local function \(name)_request\(request)\nlocal function \(name)_response\(response)"
        }
        let hasVarint = request.shape.varint != nil || response.shape.varint != nil
        return ((hasVarint ? [WiresharkScript.varint] : []) + texts).joined(separator: "\n")
    }

    private func choice(_ name: String) -> String {
        let differs = functions.contains("function \(name)_request")
        return differs ? "(is_request and \(name)_request or \(name)_response)" : "\(name)_frame"
    }

    private static let varint = """
        -- A number of seven bits in a byte, and its size; nil while bytes are missing, false for more than ten.
        local function varint(bytes, at, low_bits_first)
            local value = 0
            for index = 0, 9 do
                if at + index >= bytes:len() then return nil end
                local byte = bytes(at + index, 1):uint()
                if low_bits_first then value = value + byte % 128 * 128 ^ index else value = value * 128 + byte % 128 end
                if byte < 128 then return value, index + 1 end
            end
            return false
        end

        """

    private func varintCall(_ bytes: String, _ offset: String, _ order: ByteOrder) -> String {
        "varint(\(bytes), \(offset), \(order == .littleEndian))"
    }

    private func size(_ plan: LayoutPlan) -> String {
        let (shape, lengths) = (plan.shape, plan.limits.lengths)
        let slot = shape.length
        var rest = shape.overhead - shape.lengthOfEmpty
        let length: String
        if let order = shape.varint {
            length = """
                    local length, v = \(varintCall("buffer", "at + \(slot.offset)", order))
                    if not length then return length end
                """
            // A varint has one byte in `overhead`.
            if !shape.countsItself { rest -= 1 }
        } else {
            length = """
                    if buffer:len() < at + \(slot.offset + slot.width) then return nil end
                    local length = \(number("buffer(at + \(slot.offset), \(slot.width))", slot))
                """
        }
        let isMoved = shape.varint != nil && !shape.countsItself
        return """
            (buffer, at)
            \(length)
                if length < \(lengths.lowerBound) or length > \(lengths.upperBound) then return false end
                return length \(rest < 0 ? "-" : "+") \(rest.magnitude)\(isMoved ? " + v" : "")
            end

            """
    }

    private func dissect(_ shape: LayoutShape) -> String {
        var lines = ["(frame, tree)"]
        if let order = shape.varint {
            lines.append("    local length, v = \(varintCall("frame", "\(shape.length.offset)", order))")
            lines.append("    local n = frame:len() - \(shape.overhead - 1) - v")
            lines.append("    local seen = { n = n, v = v }")
        } else {
            lines.append("    local n = frame:len() - \(shape.overhead)")
            lines.append("    local seen = { n = n }")
        }
        for row in shape.rows {
            let range = "frame(\(row.offset.text(" + ")), \(row.size.text(" + ")))"
            let field = "f[\(luaString(names.key(of: row.field)))]"
            switch row.field.content {
            case .body:
                lines.append("    if n > 0 then tree:add(\(field), \(range)) end")
            case .length(_, isVarint: true):
                lines.append("    tree:add(\(field), \(range), UInt64(length))")
            default:
                let add = row.field.isLittleEndianNumber ? "add_le" : "add"
                lines.append("    tree:\(add)(\(field), \(range))")
            }
        }
        if let type = shape.type { lines.append("    seen.type = \(number(type, in: shape))") }
        if let serial = shape.serial {
            lines.append("    seen.serial = \(range(serial, in: shape)):\(prefix(serial))uint64()")
        }
        if let status = shape.status { lines.append("    seen.status = \(number(status, in: shape))") }
        return (lines + ["    return seen", "end", ""]).joined(separator: "\n")
    }

    private func range(_ slot: Slot, in shape: LayoutShape) -> String {
        "frame(\(shape.offset(of: slot).text(" + ")), \(slot.width))"
    }

    /// Lua's numbers are exact up to 2⁵³.
    func number(_ slot: Slot, in shape: LayoutShape) -> String { number(range(slot, in: shape), slot) }

    private func number(_ range: String, _ slot: Slot) -> String {
        "\(range):\(prefix(slot))" + (slot.width <= 4 ? "uint()" : "uint64():tonumber()")
    }

    private func prefix(_ slot: Slot) -> String { slot.order == .littleEndian && slot.width > 1 ? "le_" : "" }

    /// Read from its own byte, because Lua loses the low bits of large numbers.
    func bit(_ number: Int, _ slot: Slot, in shape: LayoutShape) -> String {
        let byte = slot.order == .littleEndian ? number / 8 : slot.width - 1 - number / 8
        let offset = shape.offset(of: slot) + LayoutShape.Extent(fixed: byte)
        return "frame(\(offset.text(" + ")), 1):bitfield(\(7 - number % 8), 1)"
    }

    func number(_ bits: BitRange, _ slot: Slot, in shape: LayoutShape) -> String {
        let terms = (0..<bits.count).reversed().map { index in
            let bit = bit(bits.lower + index, slot, in: shape)
            return index == 0 ? bit : "\(bit) * \(UInt64(1) << UInt64(index))"
        }
        return terms.count == 1 ? terms[0] : "(\(terms.joined(separator: " + ")))"
    }

    func condition(_ number: String, within range: ClosedRange<UInt64>, upTo maximum: UInt64) -> String {
        if range.lowerBound == range.upperBound { return "\(number) == \(range.lowerBound)" }
        if range.upperBound >= maximum { return "\(number) >= \(range.lowerBound)" }
        return "\(number) >= \(range.lowerBound) and \(number) <= \(range.upperBound)"
    }

    func condition(_ number: String, within range: ClosedRange<UInt32>, _ slot: Slot) -> String {
        condition(number, within: UInt64(range.lowerBound)...UInt64(range.upperBound), upTo: slot.maximum)
    }
}
