/// How packets get from this host to a server, according to the system's routing tables.
///
/// It says nothing about whether the server, or any router on the way, answers.
@nonexhaustive
public enum NetworkPath: Sendable, Hashable, CustomStringConvertible {
    /// Not known: no address of the server is known yet, or the network is not monitored (`options.network.isMonitored`, or
    /// the system does not allow it).
    case unknown
    /// The server is on this host: a loopback address or a Unix domain socket. No change of the network concerns it.
    case local
    /// No route leads to the server.
    case noRoute
    /// Packets leave by this route.
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
    /// The next router; `nil` where the server is on the interface's own network.
    public let gateway: String?
    /// Whether the interface is a tunnel, such as a VPN's: its packets travel inside those of another.
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

    /// The route in words.
    public var description: String {
        var text = interface + (isTunnel ? " (tunnel)" : "")
        if let sourceAddress { text += " from \(sourceAddress)" }
        if let gateway { text += " via \(gateway)" }
        return text
    }
}
