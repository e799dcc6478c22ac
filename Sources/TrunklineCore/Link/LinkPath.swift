/// The path of one link, and its changes.
struct LinkPath {
    /// `nil` for a Unix domain socket, and if the system does not report them.
    let local, remote: SocketAddress?
    /// The latest path after which frames were received.
    private(set) var proven: NetworkPath
    private(set) var changed: (path: NetworkPath, at: Instant)?
    /// The path that a new socket would take, at the latest check.
    var fresh: NetworkPath

    init(local: SocketAddress?, remote: SocketAddress?, _ path: NetworkPath, fresh: NetworkPath) {
        (self.local, self.remote, proven, self.fresh) = (local, remote, path, fresh)
    }

    var latest: NetworkPath { changed?.path ?? proven }

    mutating func heard(at instant: Instant) {
        if let changed, changed.at < instant { (proven, self.changed) = (changed.path, nil) }
    }

    mutating func saw(_ path: NetworkPath, at now: Instant) {
        if path != latest { changed = (path, now) }
    }
}
