extension FrameLayout {
    /// The source, in Lua, of a dissector with which Wireshark and tshark show this protocol.
    ///
    /// Save it as `acme.lua` in Wireshark's folder of personal Lua plugins, or name it on the command line:
    /// `tshark -X lua_script:acme.lua -r capture.pcap`. It shows every field under `acme.…`, joins frames that came in
    /// several segments, and says in the info column what each frame is. It shows checksums but does not verify them.
    ///
    /// - Parameters:
    ///   - name: What the protocol is called in display filters; must not be the name of one that Wireshark knows. Made
    ///     lower-case; what is no letter of ASCII, digit or underscore becomes an underscore.
    ///   - port: The server's TCP port. Frames on the way to it are requests, all others are responses and pushes.
    public func wiresharkDissector(name: String, port: UInt16) -> String {
        WiresharkScript(self, name: name, port: port).text
    }
}

/// The text of a dissector while it is put together.
private struct WiresharkScript {
    let layout: FrameLayout
    let name: String
    let port: UInt16
    private let request: LayoutPlan
    private let response: LayoutPlan
    private let names: WiresharkNames

    init(_ layout: FrameLayout, name: String, port: UInt16) {
        self.layout = layout
        self.name = wiresharkName(name.lowercased())
        self.port = port
        request = layout.requestPlan
        response = layout.responsePlan
        names = WiresharkNames([request, response])
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

        -- The size of the frame that starts at `at`: nil until its length is there, false for an impossible length.
        \(functions)
        \(kindFunction)
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

        DissectorTable.get("tcp.port"):add(\(port), protocol)

        """
    }

    /// The functions of both directions, or those of either where they are the same.
    private var functions: String {
        let pairs = [
            ("size_of", sizeFunction(request, layout.requestLimits), sizeFunction(response, layout.responseLimits)),
            ("dissect", dissectFunction(request), dissectFunction(response)),
        ]
        return pairs.map { name, request, response in
            if request == response { return "local function \(name)_frame\(request)" }
            return "local function \(name)_request\(request)\nlocal function \(name)_response\(response)"
        }
        .joined(separator: "\n")
    }

    /// The function to call for a frame, by its direction.
    private func choice(_ name: String) -> String {
        let differs = functions.contains("function \(name)_request")
        return differs ? "is_request and \(name)_request or \(name)_response" : "\(name)_frame"
    }

    private func sizeFunction(_ plan: LayoutPlan, _ limits: LayoutPlan.Limits) -> String {
        let slot = plan.length
        let rest = plan.overhead - plan.lengthOfEmpty
        return """
            (buffer, at)
                if buffer:len() < at + \(slot.offset + slot.width) then return nil end
                local length = \(number("buffer(at + \(slot.offset), \(slot.width))", width: slot.width, slot.order))
                if length < \(limits.lengths.lowerBound) or length > \(limits.lengths.upperBound) then return false end
                return length \(rest < 0 ? "-" : "+") \(rest.magnitude)
            end

            """
    }

    /// A number of up to eight bytes as Lua has them, which is exact up to 2⁵³.
    private func number(_ range: String, width: Int, _ order: ByteOrder) -> String {
        let prefix = order == .littleEndian && width > 1 ? "le_" : ""
        return width <= 4 ? "\(range):\(prefix)uint()" : "\(range):\(prefix)uint64():tonumber()"
    }

    private func dissectFunction(_ plan: LayoutPlan) -> String {
        var lines = ["(frame, tree)", "    local seen = {}"]
        // n as in the offsets: the size of the body.
        lines.append("    local n = frame:len() - \(plan.overhead)")
        for row in plan.rows {
            let range = "frame(\(row.offset.text(" + ")), \(row.size.text(" + ")))"
            let add = row.field.isLittleEndianNumber ? "add_le" : "add"
            let line = "tree:\(add)(f[\(luaString(names.key(of: row.field)))], \(range))"
            if case .body = row.field.content {
                lines.append("    if n > 0 then \(line) end")
            } else {
                lines.append("    \(line)")
            }
            if row.isRepetition { continue }
            switch row.field.content {
            case .type:
                lines.append("    seen.type = \(number(range, width: row.field.width, row.field.order))")
            case .status:
                lines.append("    seen.status = \(number(range, width: row.field.width, row.field.order))")
            case .serial:
                let prefix = row.field.isLittleEndianNumber ? "le_" : ""
                lines.append("    seen.serial = \(range):\(prefix)uint64()")
            default: break
            }
        }
        return (lines + ["    return seen", "end", ""]).joined(separator: "\n")
    }

    private var kindFunction: String {
        let roles = layout.roles
        var lines = ["-- What the frame is, by its type, and for a response by its status."]
        lines.append("local function kind_of(seen, is_request)")
        for (role, type) in [("ping", roles.ping), ("pong", roles.pong), ("cancel", roles.cancel)] {
            if let type { lines.append("    if seen.type == \(hexadecimal(type)) then return \"\(role)\" end") }
        }
        lines.append("    if is_request then return \"request\" end")
        if let push = roles.push {
            lines.append("    if \(condition("type", within: push)) then return \"push\" end")
        }
        if response.status != nil {
            lines.append("    if not (\(condition("status", within: roles.success))) then return \"rejection\" end")
        }
        return (lines + ["    return \"response\"", "end", ""]).joined(separator: "\n")
    }

    private func condition(_ number: String, within range: ClosedRange<UInt32>) -> String {
        let (low, high) = (hexadecimal(range.lowerBound), hexadecimal(range.upperBound))
        if low == high { return "seen.\(number) == \(low)" }
        return "seen.\(number) >= \(low) and seen.\(number) <= \(high)"
    }
}
