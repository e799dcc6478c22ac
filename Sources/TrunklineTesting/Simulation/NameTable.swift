import TrunklineCore

/// The names of a simulated network and the addresses that they resolve to, in order.
struct NameTable {
    private var addresses: [String: [HostAddress]] = ["localhost": [.ip([127, 0, 0, 1])]]
    private var hosts = 0
    /// Answers other than `usual`. Accessed by key only, never iterated.
    private var manners: [String: [AddressFamily: NameAnswer]] = [:]
    private var scripts: [String: [AddressFamily: ArraySlice<Bool>]] = [:]

    /// Creates the host if it does not exist: 10.0.0.1, 10.0.0.2 and so on.
    @discardableResult
    mutating func host(_ name: String) -> HostAddress {
        if let literal = HostAddress(name) { return literal }
        if let known = addresses[name]?.first { return known }
        hosts += 1
        let address = HostAddress.ip([10, 0, UInt8(truncatingIfNeeded: hosts >> 8), UInt8(truncatingIfNeeded: hosts)])
        addresses[name] = [address]
        return address
    }

    mutating func set(_ name: String, to list: [HostAddress]) { addresses[name] = list }

    mutating func setManner(_ answer: NameAnswer, of name: String, _ family: AddressFamily) {
        manners[name, default: [:]][family] = answer
    }

    mutating func script(_ failures: [Bool], of name: String) {
        scripts[name] = [.ipv6: failures[...], .ipv4: failures[...]]
    }

    /// `delay` is in nanoseconds; `nil` for never.
    mutating func answer(
        _ name: String,
        port: UInt16,
        family: AddressFamily,
        _ usualDelay: ClosedRange<Int64>,
        _ random: inout SeededGenerator
    ) -> (answer: NameLookup.Answer, delay: Int64?) {
        let delay = random.number(in: usualDelay)  // drawn in any case, so that `manners` do not change later draws
        if scripts[name]?[family]?.popFirst() == true {
            return (.failure(TransportError(.nameResolutionFailed, "the name \(name) was not found")), 0)
        }
        let found = lookUp(name)
        var unknown = TransportError(.nameResolutionFailed, "no host is named \(name)")
        unknown.isNoSuchName = true
        let known: NameLookup.Answer =
            found.isEmpty
            ? .failure(unknown)
            : .success(found.map { $0.socketAddress(port: port) }.filter { $0.family == family })
        switch manners[name]?[family] ?? .usual {
        case .usual: return (known, delay)
        case .after(let delay): return (known, max(0, delay.clampedNanoseconds))
        case .failure(let delay):
            let error = TransportError(.nameResolutionFailed, "the \(family.name) addresses of \(name) were not found")
            return (.failure(error), max(0, delay.clampedNanoseconds))
        case .never: return (known, nil)
        }
    }

    func lookUp(_ name: String) -> [HostAddress] {
        HostAddress(name).map { [$0] } ?? addresses[name] ?? []
    }
}
