/// What a response repeats of its request: see the role `responsesRepeat`.
public enum RepeatedField: Sendable, Hashable {
    /// The type, without bits that mark a role.
    case type
    /// The number in this named field.
    case field(String)

    /// Checks that requests and responses have it.
    func check(_ request: LayoutPlan, _ response: LayoutPlan) throws(LayoutError) {
        switch self {
        case .type:
            guard request.type != nil, response.type != nil else {
                throw LayoutError("role responsesRepeat", "the layout has no type field")
            }
        case .field(let name):
            for plan in [request, response] { try Roles.checkField(name, "responsesRepeat", in: plan) }
        }
    }
}

extension FrameLayout {
    /// Whether the layout has the role `responsesRepeat`.
    public var checksResponses: Bool { !roles.repeated.isEmpty }

    /// Sets in `response` the fields of `request` that the role `responsesRepeat` names, unless they are set.
    package func repeatFields(of request: borrowing Frame, in response: inout Frame) {
        for case .field(let name) in roles.repeated where response[name] == nil { response[name] = request[name] }
    }

    /// Throws `responseMismatch` for a response that does not repeat what the role `responsesRepeat` says.
    public func check(_ response: Frame, against request: Frame) throws(FrameError) {
        for field in roles.repeated {
            let (name, expected, found): (String, UInt64, UInt64)
            switch field {
            case .type:
                // Types that tell parts, of responses and of requests, say no more than that.
                let hasPart = response.kind == .part || request.kind == .part
                if hasPart, roles.part != nil || marks?.part?.types != nil { continue }
                (name, expected, found) = ("type", UInt64(request.type), UInt64(response.type))
            case .field(let field):
                let initial = requestPlan.named.first { $0.name == field }?.initial ?? 0
                (name, expected, found) = ("field \"\(field)\"", request[field] ?? initial, response[field] ?? 0)
            }
            if expected != found {
                throw FrameError(
                    .responseMismatch,
                    "the response has the \(name) \(hexadecimal(found)), its request \(hexadecimal(expected))"
                )
            }
        }
    }
}
