import Trunkline

/// Roles that an input describes.
enum FuzzRoles {
    /// Returns `layout` with the roles that the first bytes of `input` describe, or unchanged if these are invalid.
    /// `isReversible` is false if a closure may determine the kind of frames that other roles mark or number: the other
    /// side cannot encode these.
    static func given(to layout: FrameLayout, by input: inout FuzzInput) -> (FrameLayout, isReversible: Bool) {
        let (numbers, marks) = (input.next(), input.next())
        func type(_ bit: UInt8) -> UInt32? { numbers >> bit & 1 == 1 ? UInt32(input.next()) : nil }
        func role(_ bit: UInt8) -> Role? { marks >> bit & 1 == 1 ? mark(from: &input) : nil }
        let requests = numbers >> 4 & 1 == 1 ? range(from: &input) : nil
        let bodies = numbers >> 5 & 1 == 1 ? range(from: &input) : nil
        let roles = try? layout.validatingRoles {
            $0.ping = type(0)
            $0.pong = type(1)
            $0.heartbeat = type(7).map { Frame(.request, type: $0, body: "ping") }
            $0.push = role(0)
            $0.cancel = type(2)
            $0.response = role(1)
            $0.part = role(2)
            $0.goAway = role(3)
            $0.retryAfter = marks >> 4 & 1 == 1 ? .seconds(in: "a") : nil
            $0.closing = type(3)
            $0.success = marks >> 5 & 1 == 1 ? .statuses(range(from: &input)) : nil
            $0.failure = role(6)
            $0.requests = requests
            $0.serials = numbers >> 6 & 1 == 1 ? SerialNumber(input.next())... : nil
            $0.kind = marks >> 7 & 1 == 1 ? closure(by: input.next()) : nil
        }
        let result = roles ?? layout
        let hasOthers = marks & 0b0100_1111 != 0 || numbers & 0b1000_1111 != 0
        let isReversible = marks & 0b1000_0000 == 0 || !hasOthers
        // `requiringBody` stops the program if the types are invalid. `validatingRoles` has the same rules and throws,
        // so the types are checked with it first.
        guard let bodies, (try? layout.validatingRoles({ $0.requests = bodies })) != nil else {
            return (result, isReversible)
        }
        return (result.requiringBody(inResponsesTo: bodies), isReversible)
    }

    private static func range(from input: inout FuzzInput) -> ClosedRange<UInt32> {
        let lower = UInt32(input.next())
        return lower...lower + UInt32(input.next())
    }

    /// A bit or numbers, in the type or in a named field.
    private static func mark(from input: inout FuzzInput) -> Role? {
        let (choice, number) = (input.next(), input.below(64))
        let field = [nil, "a", "b"][Int(choice) % 3]
        if choice & 4 == 0 {
            // The high bits of `choice` give the number of bits; 0 means a single bit.
            let count = Int(choice >> 4)
            if count > 0 { return .bits(number..<number + count, of: field, holding: choice & 8 == 0 ? 1...1 : 1...3) }
            return .bit(number, of: field, isSet: choice & 8 == 0)
        }
        let (lower, upper) = (UInt32(number), UInt32(number) + UInt32(choice >> 4))
        return field.map { .field($0, UInt64(lower)...UInt64(upper)) } ?? .types(lower...upper)
    }

    /// A closure that depends on the type. The type is the same on both sides, except that a ping, pong or cancel frame
    /// of type 0 gets the type of its role.
    private static func closure(by key: UInt8) -> @Sendable (Frame) -> Frame.Kind? {
        { frame in
            guard ![.ping, .pong, .cancel].contains(frame.kind), frame.type != 0 else { return frame.kind }
            return switch UInt8(truncatingIfNeeded: frame.type) ^ key {
            case 1: .push
            case 2: .part
            case 3: .goAway
            case 4: .response
            case 5: nil
            default: frame.kind
            }
        }
    }
}
