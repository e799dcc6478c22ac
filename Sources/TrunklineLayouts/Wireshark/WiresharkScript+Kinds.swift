import TrunklineCore

// Classifies frames as the layout's decoder does: requests as a server sees them, all others as a client does.

extension WiresharkScript {
    private var roles: CheckedRoles { layout.roles }
    private var declared: FrameLayout.Roles { layout.declared }

    func kind(_ shape: LayoutShape) -> String {
        let isRequest = shape.direction == .request
        var lines = unmarkedType(shape) + base(shape) + heartbeats(shape)
        if !isRequest { lines += pushes(shape) }
        lines += requestAsPing(shape)
        if isRequest { lines += partsOfRequests(shape) }
        if let requests = roles.requests, let type = shape.type {
            var known = [condition("seen.type", within: requests, type)]
            for case let number? in [roles.closing, roles.window] {
                known.append(condition("seen.type", within: number...number, type))
            }
            if !isRequest, let part = declared.part?.types {
                known.append(condition("seen.type", within: part, upTo: type.maximum))
            }
            let isKnown = known.joined(separator: " or ")
            lines.append("if kind ~= \"push\" and not (\(isKnown)) then return \"unknown\" end")
        }
        if !isRequest {
            lines += answers(shape)
            if declared.kind != nil || layout.hasReading {
                lines.append("-- A closure of the program may return another kind.")
            }
        }
        for symbol in ["n", "v"]
        where lines.contains(where: { $0.contains("+ \(symbol)") || $0.contains("(\(symbol)") }) {
            lines.insert("local \(symbol) = seen.\(symbol)", at: 0)
        }
        return "(frame, seen)\n" + (lines + ["return kind"]).map { "    \($0)\n" }.joined() + "end\n"
    }

    private func unmarkedType(_ shape: LayoutShape) -> [String] {
        guard let type = shape.type else { return [] }
        return (0..<8 * type.width).filter { roles.typeBits >> UInt32($0) & 1 == 1 }.map { number in
            let bit = bit(number, type, in: shape)
            return "if \(bit) == 1 then seen.type = seen.type - \(UInt64(1) << UInt64(number)) end"
        }
    }

    private func base(_ shape: LayoutShape) -> [String] {
        if let slot = shape.kind {
            let kinds = slot.numbers.sorted { $0.value < $1.value }.map { "[\($0.value)] = \"\($0.key)\"" }
            return [
                "local kinds = { \(kinds.joined(separator: ", ")) }",
                "local kind = kinds[\(number(slot.slot, in: shape))] or \"unknown\"",
                "local answers = kind == \"response\"",
                "if kind ~= \"request\" and kind ~= \"response\" and kind ~= \"push\" then return kind end",
            ]
        }
        guard let answers = test(declared.response, shape) else {
            return ["local kind, answers = \"\(shape.direction)\", false"]
        }
        let other = shape.direction == .request || declared.push != nil ? "request" : "push"
        return ["local answers = \(answers)", "local kind = answers and \"response\" or \"\(other)\""]
    }

    private func heartbeats(_ shape: LayoutShape) -> [String] {
        guard let slot = shape.type else { return [] }
        let parts = roles.hasMarks ? nil : roles.part
        let kinds = [
            (roles.ping.map { $0...$0 }, "", "answers and \"pong\" or \"ping\""),
            (roles.pong.map { $0...$0 }, "", "\"pong\""),
            (roles.cancel.map { $0...$0 }, " and not answers", "\"cancel\""),
            (parts, "", "\"part\""),
        ]
        return kinds.compactMap { types, unless, kind in
            types.map { "if \(condition("seen.type", within: $0, slot))\(unless) then return \(kind) end" }
        }
    }

    /// The request that serves as a ping, and its answer. The body is not compared.
    private func requestAsPing(_ shape: LayoutShape) -> [String] {
        guard let heartbeat = declared.heartbeat, let serial = shape.serial else { return [] }
        let lowest = roles.serials.lowerBound
        let value = number(serial, in: shape)
        var test = "\(value) < \(lowest)" + (lowest > 1 ? " and \(value) > 0" : "")
        if shape.direction == .request, let type = shape.type {
            test += " and \(condition("seen.type", within: heartbeat.type...heartbeat.type, type))"
        }
        let kind = shape.direction == .request ? "ping" : "pong"
        return ["if kind == \"\(shape.direction)\" and \(test) then return \"\(kind)\" end"]
    }

    private func partsOfRequests(_ shape: LayoutShape) -> [String] {
        guard roles.hasMarks, let part = roles.part, let type = shape.type else { return [] }
        let others = [roles.requests, roles.closing.map { $0...$0 }].compactMap { $0 }.filter(part.overlaps)
        let unless = others.map { " and not (\(condition("seen.type", within: $0, type)))" }.joined()
        let test = condition("seen.type", within: part, type)
        return ["if kind == \"request\" and \(test)\(unless) then return \"part\" end"]
    }

    private func pushes(_ shape: LayoutShape) -> [String] {
        // A frame that is marked as a response is neither.
        let unless = roles.tellsPushes ? " and not answers" : ""
        return [(declared.goAway, "goAway"), (declared.push, "push")].compactMap { role, kind in
            test(role, shape).map { "if (\($0))\(unless) then return \"\(kind)\" end" }
        }
    }

    private func answers(_ shape: LayoutShape) -> [String] {
        let part = roles.hasMarks ? test(declared.part, shape) : nil
        let status = shape.status.map { "not (\(condition("seen.status", within: roles.success, $0)))" }
        let failure = test(declared.failure, shape)
        return [(part, "part"), (status, "error response"), (failure, "error response")].compactMap { test, kind in
            test.map { "if kind == \"response\" and \($0) then return \"\(kind)\" end" }
        }
    }

    private func test(_ role: Role?, _ shape: LayoutShape) -> String? {
        guard let role else { return nil }
        let slot: Slot?
        let isType = role.place == .type
        if case .field(let name) = role.place {
            slot = shape.named.first { $0.name == name }?.slot
        } else {
            slot = shape.type
        }
        guard let slot else { return nil }
        switch role.test {
        case .numbers(let numbers):
            return condition(isType ? "seen.type" : number(slot, in: shape), within: numbers, upTo: slot.maximum)
        case .bits(let bits, let numbers):
            return condition(number(bits, slot, in: shape), within: numbers, upTo: bits.maximum)
        }
    }
}
