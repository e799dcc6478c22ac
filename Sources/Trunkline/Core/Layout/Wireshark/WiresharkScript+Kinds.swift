// What tells frames apart, as FrameLayout's own decoding has it: of requests as a server sees them, of all that comes
// back as a client does.

extension WiresharkScript {
    /// The function that returns the kind of a frame of one direction, without its name.
    func kind(_ direction: LayoutDraft.Direction) -> String {
        let plan = direction == .request ? layout.requestPlan : layout.responsePlan
        var lines: [String] = []
        if let marks = layout.marks { lines += maskedType(marks, plan) }
        lines += base(direction, plan) + heartbeats(plan)
        if direction == .response { lines += pushes(plan) }
        lines += requestAsPing(direction, plan)
        if let requests = layout.marks?.requests, let type = plan.type {
            let part = layout.marks?.part?.types
            let others = [layout.roles.closing.map { wide($0...$0) }, direction == .response ? part : nil]
            let isKnown = ([wide(requests)] + others.compactMap { $0 }).map { condition("seen.type", within: $0, type) }
                .joined(separator: " or ")
            lines.append("if kind ~= \"push\" and not (\(isKnown)) then return \"unknown\" end")
        }
        if direction == .response { lines += answers(plan) }
        if direction == .response, layout.marks?.kind != nil {
            lines.append("-- A closure of the program's own can say otherwise.")
        }
        for symbol in ["n", "v"]
        where lines.contains(where: { $0.contains("+ \(symbol)") || $0.contains("(\(symbol)") }) {
            lines.insert("local \(symbol) = seen.\(symbol)", at: 0)
        }
        return "(frame, seen)\n" + (lines + ["return kind"]).map { "    \($0)\n" }.joined() + "end\n"
    }

    /// Takes the bits out of the type that are no part of it.
    private func maskedType(_ marks: RoleMarks, _ plan: LayoutPlan) -> [String] {
        guard let type = plan.type else { return [] }
        return (0..<8 * type.width).filter { marks.typeBits >> UInt32($0) & 1 == 1 }.map { number in
            let isSet = bit(number, type, isSet: true, in: plan)
            return "if \(isSet) then seen.type = seen.type - \(UInt64(1) << UInt64(number)) end"
        }
    }

    /// What the frame is unless something below says more, and whether it is known to answer a request.
    private func base(_ direction: LayoutDraft.Direction, _ plan: LayoutPlan) -> [String] {
        let roles = layout.roles
        let usual = direction == .request ? "request" : "response"
        if let slot = plan.kind {
            let kinds = slot.numbers.sorted { $0.value < $1.value }.map {
                "[\($0.value)] = \"\($0.key)\""
            }
            return [
                "local kinds = { \(kinds.joined(separator: ", ")) }",
                "local kind = kinds[\(number(slot.slot, in: plan))] or \"unknown\"",
                "local answers = kind == \"response\"",
                "if kind ~= \"request\" and kind ~= \"response\" and kind ~= \"push\" then return kind end",
            ]
        }
        guard let response = layout.marks?.response, let answers = test(response, plan) else {
            return ["local kind, answers = \"\(usual)\", false"]
        }
        let hasPushes = roles.push != nil || layout.marks?.push != nil
        let other = direction == .request || hasPushes ? "request" : "push"
        return ["local answers = \(answers)", "local kind = answers and \"response\" or \"\(other)\""]
    }

    private func heartbeats(_ plan: LayoutPlan) -> [String] {
        guard let slot = plan.type else { return [] }
        func isType(_ type: UInt32) -> String {
            condition("seen.type", within: wide(type...type), slot)
        }
        let roles = layout.roles
        var lines: [String] = []
        if let ping = roles.ping {
            lines.append("if \(isType(ping)) then return answers and \"pong\" or \"ping\" end")
        }
        if let pong = roles.pong { lines.append("if \(isType(pong)) then return \"pong\" end") }
        if let cancel = roles.cancel {
            lines.append("if \(isType(cancel)) and not answers then return \"cancel\" end")
        }
        if layout.marks == nil, let part = roles.part {
            lines.append("if \(condition("seen.type", within: wide(part), slot)) then return \"part\" end")
        }
        return lines
    }

    /// The request that serves as a ping, and its answer. Its body is not compared.
    private func requestAsPing(_ direction: LayoutDraft.Direction, _ plan: LayoutPlan) -> [String] {
        guard let heartbeat = layout.marks?.heartbeat, let serial = plan.serial else { return [] }
        let (lowest, usual) = (layout.roles.serials.lowerBound, direction == .request ? "request" : "response")
        let value = number(serial, in: plan)
        var test = "\(value) < \(lowest)" + (lowest > 1 ? " and \(value) > 0" : "")
        if direction == .request, let type = plan.type {
            test += " and \(condition("seen.type", within: wide(heartbeat.type...heartbeat.type), type))"
        }
        return ["if kind == \"\(usual)\" and \(test) then return \"\(direction == .request ? "ping" : "pong")\" end"]
    }

    private func pushes(_ plan: LayoutPlan) -> [String] {
        let roles = layout.roles
        let goAway = layout.marks?.goAway.flatMap { test($0, plan) }
        var push = layout.marks?.push.flatMap { test($0, plan) }
        if let types = roles.push, let slot = plan.type {
            push = condition("seen.type", within: wide(types), slot)
        }
        // A response that is known to be one is neither.
        let unless = layout.marks?.tellsPushes == true ? " and not answers" : ""
        return [(goAway, "goAway"), (push, "push")].compactMap { test, kind in
            test.map { "if (\($0))\(unless) then return \"\(kind)\" end" }
        }
    }

    private func answers(_ plan: LayoutPlan) -> [String] {
        let roles = layout.roles
        var lines: [String] = []
        if let part = layout.marks?.part.flatMap({ test($0, plan) }) {
            lines.append("if kind == \"response\" and \(part) then return \"part\" end")
        }
        let failure = layout.marks?.failure.flatMap { test($0, plan) }
        let status = plan.status.map {
            "not (\(condition("seen.status", within: wide(roles.success), $0)))"
        }
        for failure in [status, failure] {
            if let failure {
                lines.append("if kind == \"response\" and \(failure) then return \"error response\" end")
            }
        }
        return lines
    }

    /// Whether the frame has the mark; `nil` where it has not the field.
    private func test(_ role: Role, _ plan: LayoutPlan) -> String? {
        let slot: LayoutPlan.Slot?
        let value: String
        switch role.place {
        case .type:
            slot = plan.type
            value = "seen.type"
        case .field(let name):
            slot = plan.named.first { $0.name == name }?.slot
            value = slot.map { number($0, in: plan) } ?? ""
        }
        guard let slot else { return nil }
        return switch role.test {
        case .numbers(let numbers): condition(value, within: numbers, slot)
        case .bit(let number, let isSet): bit(number, slot, isSet: isSet, in: plan)
        case .bits(let bits, let numbers): condition(bits, within: numbers, slot, in: plan)
        }
    }

    private func wide(_ range: ClosedRange<UInt32>) -> ClosedRange<UInt64> {
        UInt64(range.lowerBound)...UInt64(range.upperBound)
    }
}
