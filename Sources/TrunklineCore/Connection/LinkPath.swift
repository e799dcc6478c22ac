/// The path of one link, and its changes.
struct LinkPath {
    /// The local and the remote address; `nil` for a Unix domain socket, and if the system does not report them.
    let local, remote: SocketAddress?
    /// The latest path that is known to have worked: frames were received after it was seen.
    private(set) var proven: NetworkPath
    /// A different path that was seen since, and when.
    private(set) var changed: (path: NetworkPath, at: Instant)?
    /// The path that a new socket would take, at the latest check.
    var fresh: NetworkPath

    init(local: SocketAddress?, remote: SocketAddress?, _ path: NetworkPath, fresh: NetworkPath) {
        (self.local, self.remote, proven, self.fresh) = (local, remote, path, fresh)
    }

    /// The path at the latest check.
    var latest: NetworkPath { changed?.path ?? proven }

    /// Notes that frames were received at `instant`.
    mutating func heard(at instant: Instant) {
        if let changed, changed.at < instant { (proven, self.changed) = (changed.path, nil) }
    }

    mutating func saw(_ path: NetworkPath, at now: Instant) {
        if path != latest { changed = (path, now) }
    }
}
