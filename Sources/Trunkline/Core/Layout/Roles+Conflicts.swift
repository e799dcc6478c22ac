// A type that had two roles would be taken for the one that is looked for first, and the other would be lost without a word:
// a protocol whose pushes were all taken for pings, requests that no caller may send.

extension RoleList {
    /// Whether a response is known to be one, so that it is no push, whatever its type.
    func tellsPushes(in response: LayoutPlan) -> Bool {
        self.response != nil || response.kind?.lists(.push) == true
    }

    /// Refuses numbers, of the type or of a named field, that two roles have.
    func checkTypes(tellsPushes: Bool) throws(LayoutError) {
        func type(_ number: UInt32?) -> Role? { number?.markOfRole }
        let roles: [(name: String, role: Role?)] = [
            ("ping", type(ping)), ("pong", type(pong == ping ? nil : pong)), ("cancel", type(cancel)),
            ("closing", type(closing)), ("goAway", goAway), ("push", push), ("part", part),
            ("requests", requests?.markOfRole),
        ]
        for (index, second) in roles.enumerated() {
            for first in roles[..<index] where !RoleList.mayShare(first.name, second.name, tellsPushes) {
                guard let a = first.role, let b = second.role, let number = a.firstNumber(sharedWith: b) else {
                    continue
                }
                if second.name == "requests", a.isAmid(b) { continue }
                throw LayoutError(
                    "role \(second.name)",
                    "\(b.name) \(hexadecimal(number)) has the role \(first.name), and cannot have both"
                )
            }
        }
    }

    /// Whether frames of these roles differ by more than their types: by their direction, or by a mark on responses.
    private static func mayShare(_ first: String, _ second: String, _ tellsPushes: Bool) -> Bool {
        switch (first, second) {
        case ("closing", "goAway"), ("closing", "part"), ("closing", "requests"), ("part", "requests"): true
        case ("closing", "push"), ("goAway", "part"), ("goAway", "requests"), ("push", "part"), ("push", "requests"):
            tellsPushes
        default: false
        }
    }
}

extension Role {
    /// The lowest number that has both roles.
    fileprivate func firstNumber(sharedWith other: Role) -> UInt64? {
        guard place == other.place, case .numbers(let mine) = test, case .numbers(let others) = other.test,
            mine.overlaps(others)
        else { return nil }
        return max(mine.lowerBound, others.lowerBound)
    }

    /// Whether `other` has numbers below and above all of these: a range that cannot do without them, as SMPP's commands
    /// have `enquire_link` in their midst.
    fileprivate func isAmid(_ other: Role) -> Bool {
        guard case .numbers(let mine) = test, case .numbers(let others) = other.test else { return false }
        return others.lowerBound < mine.lowerBound && mine.upperBound < others.upperBound
    }
}
