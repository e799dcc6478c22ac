/// The path of packets from this host to a server, according to the routing tables of the system.
///
/// The path does not show whether the server, or any router on the way, responds. Two paths are equal if their
/// interface, source address, gateway and tunnel flag are equal.
@nonexhaustive
public enum NetworkPath: Sendable, Hashable, CustomStringConvertible {
    /// The path is unknown: no address of the server is known yet, or the network is not monitored
    /// (``ClientOptions/Network-swift.struct/isMonitored`` is false, or the system does not allow it).
    case unknown
    /// The server has a loopback address or a Unix domain socket. Changes of the network do not affect it, and this
    /// path is known even if the network is not monitored. Another address of this host has a ``route(_:)`` through the
    /// loopback interface instead.
    case local
    /// No route leads to the server: the routing tables have no route, the route drops packets, or its interface is
    /// down or has no carrier.
    case noRoute
    /// Packets take this route.
    case route(NetworkRoute)

    package var isUsable: Bool { self != .noRoute }

    /// The path as text, such as `eth0 from 10.0.0.2 via 10.0.0.1`, `this host`, `no route` or `unknown path`.
    public var description: String {
        switch self {
        case .unknown: "unknown path"
        case .local: "this host"
        case .noRoute: "no route"
        case .route(let route): route.description
        }
    }
}

/// A route from this host to a server.
public struct NetworkRoute: Sendable, Hashable, CustomStringConvertible {
    /// The name of the interface through which packets leave, such as `eth0`.
    public let interface: String
    /// The IP address of the next router. `nil` if the server is on the network of the interface, and always `nil` on
    /// Darwin.
    public let gateway: String?
    /// Whether the interface is a tunnel, such as that of a VPN, whose packets travel inside those of another
    /// interface. Determined by the kind of the interface on Linux, and by its name and flags on Darwin.
    public let isTunnel: Bool
    let source: SocketAddress?

    package init(interface: String, source: SocketAddress?, gateway: String? = nil, isTunnel: Bool = false) {
        self.interface = interface
        self.source = source
        self.gateway = gateway
        self.isTunnel = isTunnel
    }

    /// The source IP address of the packets; `nil` if the system does not report it.
    public var sourceAddress: String? { source?.host }

    /// The route as text, such as `eth0 from 10.0.0.2 via 10.0.0.1`.
    public var description: String {
        var text = interface + (isTunnel ? " (tunnel)" : "")
        if let sourceAddress { text += " from \(sourceAddress)" }
        if let gateway { text += " via \(gateway)" }
        return text
    }
}
