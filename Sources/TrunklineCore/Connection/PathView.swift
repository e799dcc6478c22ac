/// A connection's view of the host's network.
struct PathView {
    /// `nil` before the first attempt to subscribe.
    var isMonitored: Bool?
    var addresses: [Endpoint: [SocketAddress]] = [:]
    var unresolved: Set<Endpoint> = []
    /// Links work although this host does not have their local address (`ip_nonlocal_bind`): addresses say nothing.
    var hasForeignSource = false
    var latest = Look()
    var published = NetworkPath.unknown
    var readers = Broadcast<NetworkPath>()

    struct Look: Equatable {
        var paths: [Endpoint: [NetworkPath]] = [:]
        var hasNetwork = true
    }
}
