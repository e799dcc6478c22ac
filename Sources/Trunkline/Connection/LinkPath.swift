/// The path of one link, and what has become of it.
struct LinkPath {
    /// This end and the other; `nil` for a Unix domain socket, and where the system does not tell.
    let local, remote: SocketAddress?
    /// What is known to have worked: frames came after it was seen.
    private(set) var proven: NetworkPath
    /// Another that was seen since, and when.
    private(set) var changed: (path: NetworkPath, at: Instant)?
    /// What a new socket would take, by the latest look.
    var fresh: NetworkPath

    init(local: SocketAddress?, remote: SocketAddress?, _ path: NetworkPath, fresh: NetworkPath) {
        (self.local, self.remote, proven, self.fresh) = (local, remote, path, fresh)
    }

    /// By the latest look.
    var latest: NetworkPath { changed?.path ?? proven }

    /// Frames came at `instant`.
    mutating func heard(at instant: Instant) {
        if let changed, changed.at < instant { (proven, self.changed) = (changed.path, nil) }
    }

    mutating func saw(_ path: NetworkPath, at now: Instant) {
        if path != latest { changed = (path, now) }
    }
}
