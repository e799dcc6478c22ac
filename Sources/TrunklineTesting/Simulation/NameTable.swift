import TrunklineCore

/// The names of a simulated network and the addresses they resolve to, in order.
struct NameTable {
    private var addresses: [String: [HostAddress]] = ["localhost": [.ip([127, 0, 0, 1])]]
    private var hosts = 0

    /// The address of the host called `name`, which is made if there is none: 10.0.0.1, 10.0.0.2 and so on.
    @discardableResult
    mutating func host(_ name: String) -> HostAddress {
        if let literal = HostAddress(name) { return literal }
        if let known = addresses[name]?.first { return known }
        hosts += 1
        let address = HostAddress.ip([10, 0, UInt8(truncatingIfNeeded: hosts >> 8), UInt8(truncatingIfNeeded: hosts)])
        addresses[name] = [address]
        return address
    }

    /// Lets `name` resolve to `list`; to nothing when it is empty.
    mutating func set(_ name: String, to list: [HostAddress]) { addresses[name] = list }

    /// What `name` resolves to; empty when it is unknown.
    func lookUp(_ name: String) -> [HostAddress] {
        HostAddress(name).map { [$0] } ?? addresses[name] ?? []
    }
}
