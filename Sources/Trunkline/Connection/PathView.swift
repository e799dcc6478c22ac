/// What a connection knows of the host's network.
struct PathView {
    /// Whether the monitor tells of changes; `nil` before it was asked.
    var isMonitored: Bool?
    /// The addresses of names, from their latest resolution.
    var addresses: [Endpoint: [SocketAddress]] = [:]
    /// Names whose latest resolution failed.
    var unresolved: Set<Endpoint> = []
    /// Links work although their local address is not one of this host's (`ip_nonlocal_bind`): nothing follows from addresses.
    var hasForeignSource = false
    /// The latest look, while there was no link.
    var latest = Look()
    /// The latest element of `paths`.
    var published = NetworkPath.unknown
    var readers = Broadcast<NetworkPath>()

    /// Which paths there were at one time.
    struct Look: Equatable {
        var paths: [Endpoint: [NetworkPath]] = [:]
        var hasNetwork = true
    }
}
