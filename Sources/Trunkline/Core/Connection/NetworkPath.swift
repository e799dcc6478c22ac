/// The way of packets from this host to a server, according to the system's routing tables.
///
/// It does not tell whether the server, or any router on the way, answers. Paths are equal when interface, source address, next
/// router and the mark of a tunnel are.
@nonexhaustive
public enum NetworkPath: Sendable, Hashable, CustomStringConvertible {
    /// Not known: no address of the server is known yet, or the network is not monitored (`options.network.isMonitored` is false,
    /// or the system does not allow it).
    case unknown
    /// The server has a loopback address or a Unix domain socket. No change of the network concerns it, and it is known without
    /// monitoring. Another address of this host has a route, through the loopback interface.
    case local
    /// No route leads to the server: the tables have none, or one that drops packets, or its interface is down or has no
    /// carrier.
    case noRoute
    /// Packets take this route.
    case route(NetworkRoute)

    /// Whether packets have a way to the server, as far as is known.
    package var isUsable: Bool { self != .noRoute }

    /// The path in words, such as `eth0 from 10.0.0.2 via 10.0.0.1`.
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
    /// The name of the interface that packets leave by, such as `eth0`.
    public let interface: String
    /// The IP address of the next router; `nil` where the server is on the interface's own network, and on Darwin.
    public let gateway: String?
    /// Whether the interface is a tunnel, such as a VPN's, whose packets travel inside those of another interface. By the kind of
    /// the interface on Linux, by its name and flags on Darwin.
    public let isTunnel: Bool
    /// The address that a new socket gets, with port 0.
    package let source: SocketAddress?

    package init(interface: String, source: SocketAddress?, gateway: String? = nil, isTunnel: Bool = false) {
        self.interface = interface
        self.source = source
        self.gateway = gateway
        self.isTunnel = isTunnel
    }

    /// The IP address of this host that packets carry; `nil` if the system does not tell.
    public var sourceAddress: String? { source?.host }

    /// The route in words, such as `eth0 from 10.0.0.2 via 10.0.0.1`.
    public var description: String {
        var text = interface + (isTunnel ? " (tunnel)" : "")
        if let sourceAddress { text += " from \(sourceAddress)" }
        if let gateway { text += " via \(gateway)" }
        return text
    }
}
