/// The text of a dissector while it is put together. In it, n is the size of a frame's body and v that of a varint.
struct WiresharkScript {
    let layout: FrameLayout
    let name: String
    let port: UInt16
    private let names: WiresharkNames

    init(_ layout: FrameLayout, name: String, port: UInt16) {
        self.layout = layout
        self.name = wiresharkName(name.lowercased())
        self.port = port
        names = WiresharkNames([layout.requestPlan, layout.responsePlan])
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

        \(functions)
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

        DissectorTable.get("tcp.port"):add(\(port), protocol)

        """
    }

    /// The functions of both directions, or those of either where they are the same.
    private var functions: String {
        let (request, response) = (layout.requestPlan, layout.responsePlan)
        let pairs = [
            (
                "-- The size of the frame at `at`: nil until its length is there, false for an impossible length.\n",
                "size_of", size(request, layout.requestLimits), size(response, layout.responseLimits)
            ),
            ("", "dissect", dissect(request), dissect(response)),
            ("-- What a frame is for.\n", "kind_of", kind(.request), kind(.response)),
        ]
        let texts = pairs.map { comment, name, request, response in
            if request == response { return "\(comment)local function \(name)_frame\(request)" }
            return
                "\(comment)local function \(name)_request\(request)\nlocal function \(name)_response\(response)"
        }
        let hasVarint = [request, response].contains { $0.varint != nil }
        return ((hasVarint ? [WiresharkScript.varint] : []) + texts).joined(separator: "\n")
    }

    /// The function to call for a frame, by its direction.
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

    private func size(_ plan: LayoutPlan, _ limits: LayoutPlan.Limits) -> String {
        let slot = plan.length
        var rest = plan.overhead - plan.lengthOfEmpty
        let length: String
        if let order = plan.varint {
            length = """
                    local length, v = \(varintCall("buffer", "at + \(slot.offset)", order))
                    if not length then return length end
                """
            // A varint has one byte in `overhead`.
            if !plan.countsItself { rest -= 1 }
        } else {
            length = """
                    if buffer:len() < at + \(slot.offset + slot.width) then return nil end
                    local length = \(number("buffer(at + \(slot.offset), \(slot.width))", slot))
                """
        }
        let isMoved = plan.varint != nil && !plan.countsItself
        return """
            (buffer, at)
            \(length)
                if length < \(limits.lengths.lowerBound) or length > \(limits.lengths.upperBound) then return false end
                return length \(rest < 0 ? "-" : "+") \(rest.magnitude)\(isMoved ? " + v" : "")
            end

            """
    }

    private func dissect(_ plan: LayoutPlan) -> String {
        var lines = ["(frame, tree)"]
        if let order = plan.varint {
            lines.append("    local length, v = \(varintCall("frame", "\(plan.length.offset)", order))")
            lines.append("    local n = frame:len() - \(plan.overhead - 1) - v")
            lines.append("    local seen = { n = n, v = v }")
        } else {
            lines.append("    local n = frame:len() - \(plan.overhead)")
            lines.append("    local seen = { n = n }")
        }
        for row in plan.rows {
            let range = "frame(\(row.offset.text(" + ")), \(row.size.text(" + ")))"
            let field = "f[\(luaString(names.key(of: row.field)))]"
            switch row.field.content {
            case .body:
                lines.append("    if n > 0 then tree:add(\(field), \(range)) end")
            case .length(_, isVarint: true):
                lines.append("    tree:add(\(field), \(range), UInt64(length))")
            default:
                lines.append(
                    "    tree:\(row.field.isLittleEndianNumber ? "add_le" : "add")(\(field), \(range))"
                )
            }
        }
        if let type = plan.type { lines.append("    seen.type = \(number(type, in: plan))") }
        if let serial = plan.serial {
            lines.append("    seen.serial = \(range(serial, in: plan)):\(prefix(serial))uint64()")
        }
        if let status = plan.status { lines.append("    seen.status = \(number(status, in: plan))") }
        return (lines + ["    return seen", "end", ""]).joined(separator: "\n")
    }
}

// MARK: - Numbers

extension WiresharkScript {
    /// The bytes of `slot` in a frame.
    func range(_ slot: LayoutPlan.Slot, in plan: LayoutPlan) -> String {
        "frame(\(plan.offset(of: slot).text(" + ")), \(slot.width))"
    }

    /// The number in `slot`, which Lua has exactly up to 2⁵³.
    func number(_ slot: LayoutPlan.Slot, in plan: LayoutPlan) -> String {
        number(range(slot, in: plan), slot)
    }

    private func number(_ range: String, _ slot: LayoutPlan.Slot) -> String {
        slot.width <= 4
            ? "\(range):\(prefix(slot))uint()" : "\(range):\(prefix(slot))uint64():tonumber()"
    }

    private func prefix(_ slot: LayoutPlan.Slot) -> String {
        slot.order == .littleEndian && slot.width > 1 ? "le_" : ""
    }

    /// Whether bit `number` of the number in `slot` is set, from its own byte, as Lua loses low bits of large numbers.
    func bit(_ number: Int, _ slot: LayoutPlan.Slot, isSet: Bool, in plan: LayoutPlan) -> String {
        let byte = slot.order == .littleEndian ? number / 8 : slot.width - 1 - number / 8
        let offset = plan.offset(of: slot) + LayoutPlan.Extent(fixed: byte)
        return "frame(\(offset.text(" + ")), 1):bitfield(\(7 - number % 8), 1) == \(isSet ? 1 : 0)"
    }

    /// Whether `bits` of the number in `slot` hold one of `numbers`. Each bit from its own byte, for the same reason.
    func condition(
        _ bits: BitRange,
        within numbers: ClosedRange<UInt64>,
        _ slot: LayoutPlan.Slot,
        in plan: LayoutPlan
    ) -> String {
        let value = (0..<bits.count).reversed().map { index in
            let number = bits.lower + index
            let byte = slot.order == .littleEndian ? number / 8 : slot.width - 1 - number / 8
            let offset = plan.offset(of: slot) + LayoutPlan.Extent(fixed: byte)
            let bit = "frame(\(offset.text(" + ")), 1):bitfield(\(7 - number % 8), 1)"
            return index == 0 ? bit : "\(bit) * \(UInt64(1) << UInt64(index))"
        }
        let sum = "(\(value.joined(separator: " + ")))"
        if numbers.lowerBound == numbers.upperBound { return "\(sum) == \(numbers.lowerBound)" }
        if numbers.upperBound >= bits.maximum { return "\(sum) >= \(numbers.lowerBound)" }
        return "\(sum) >= \(numbers.lowerBound) and \(sum) <= \(numbers.upperBound)"
    }

    /// Whether `number` is one of `range`, in a field of `width` bytes.
    func condition(_ number: String, within range: ClosedRange<UInt64>, _ slot: LayoutPlan.Slot)
        -> String
    {
        if range.lowerBound == range.upperBound { return "\(number) == \(range.lowerBound)" }
        if range.upperBound >= slot.maximum { return "\(number) >= \(range.lowerBound)" }
        return "\(number) >= \(range.lowerBound) and \(number) <= \(range.upperBound)"
    }
}
