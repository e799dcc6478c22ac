import TrunklineCore

/// Faults and conditions, applied to new links. Accessed by key only, never iterated.
struct HostFaults {
    private var cut: Set<HostAddress> = []
    private var isEverythingCut = false
    private var refusals: [HostAddress: TransportError] = [:]
    private var swallowing: Set<HostAddress> = []
    private var reflecting: Set<HostAddress> = []
    private var forgetting: [HostAddress: Middlebox] = [:]
    private var defaultMiddlebox: Middlebox?
    private var conditions: [HostAddress: LinkTraits] = [:]
    private var defaultConditions: LinkTraits
    private var scripts: [HostAddress: ArraySlice<ScriptedConnect>] = [:]

    init(_ traits: LinkTraits) { defaultConditions = traits }

    func isCut(_ host: HostAddress) -> Bool { isEverythingCut || cut.contains(host) }

    mutating func setCut(_ isCut: Bool, _ hosts: [HostAddress]?) {
        if let hosts {
            if isCut { cut.formUnion(hosts) } else { cut.subtract(hosts) }
        } else {
            isEverythingCut = isCut
            if !isCut { cut = [] }
        }
    }

    func refusal(of host: HostAddress) -> TransportError? { refusals[host] }

    func swallows(_ host: HostAddress) -> Bool { swallowing.contains(host) }

    func reflects(_ host: HostAddress) -> Bool { reflecting.contains(host) }

    mutating func setRefusal(_ error: TransportError?, swallows: Bool, reflects: Bool, _ hosts: [HostAddress]) {
        for host in hosts { refusals[host] = error }
        if swallows { swallowing.formUnion(hosts) } else { swallowing.subtract(hosts) }
        if reflects { reflecting.formUnion(hosts) } else { reflecting.subtract(hosts) }
    }

    func middlebox(before host: HostAddress) -> Middlebox? { forgetting[host] ?? defaultMiddlebox }

    /// `nil` stands for all hosts, including new ones.
    mutating func setMiddlebox(_ middlebox: Middlebox?, _ hosts: [HostAddress]?) {
        if let hosts {
            for host in hosts { forgetting[host] = middlebox }
        } else {
            (forgetting, defaultMiddlebox) = ([:], middlebox)
        }
    }

    mutating func script(_ outcomes: [ScriptedConnect], _ host: HostAddress) { scripts[host] = outcomes[...] }

    mutating func nextConnect(to host: HostAddress) -> ScriptedConnect? { scripts[host]?.popFirst() }

    func traits(of host: HostAddress) -> LinkTraits { conditions[host] ?? defaultConditions }

    var resolutionDelay: ClosedRange<Int64> { defaultConditions.resolutionDelay }

    mutating func setTraits(_ traits: LinkTraits, _ hosts: [HostAddress]?) {
        if let hosts {
            for host in hosts { conditions[host] = traits }
        } else {
            conditions = [:]
            defaultConditions = traits
        }
    }
}

/// A device on the path of links that forgets those that are idle for too long.
struct Middlebox: Sendable {
    /// The longest time without a packet after which the device still knows a link.
    let patience: Duration
    /// Whether packets of a forgotten link are answered with a reset, instead of dropped.
    let resets: Bool
}

enum ScriptedConnect: Sendable {
    case accept(after: Duration)
    /// `isSecuring`: TCP was connected, and the TLS handshake failed.
    case refuse(TransportError, isSecuring: Bool = false, after: Duration)
    case swallow(isSecuring: Bool = false)
}
