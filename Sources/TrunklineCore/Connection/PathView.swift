/// A connection's view of the host's network.
struct PathView {
    /// Whether the monitor reports changes; `nil` before the first attempt to subscribe.
    var isMonitored: Bool?
    /// The addresses of names, from their latest resolution, as far as `AddressRace` takes them.
    var addresses: [Endpoint: [SocketAddress]] = [:]
    /// The endpoints whose latest name resolution failed.
    var unresolved: Set<Endpoint> = []
    /// Whether links work although their local address does not belong to this host (`ip_nonlocal_bind`). Then
    /// addresses say nothing about links.
    var hasForeignSource = false
    /// The paths at the latest check.
    var latest = Look()
    /// The latest element of `paths`.
    var published = NetworkPath.unknown
    var readers = Broadcast<NetworkPath>()

    /// The paths at one instant.
    struct Look: Equatable {
        var paths: [Endpoint: [NetworkPath]] = [:]
        var hasNetwork = true
    }
}
