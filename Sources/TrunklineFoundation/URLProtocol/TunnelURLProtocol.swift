import Trunkline

#if canImport(FoundationNetworking)
    import Foundation
    public import FoundationNetworking
#else
    public import Foundation
#endif

/// Has the `URLSession`s of an app use a tunnel, with their code unchanged but for one line.
///
/// ```swift
/// TunnelURLProtocol.register(tunnel) { $0.url?.host == "api.example.com" }
/// let configuration = URLSessionConfiguration.default
/// configuration.protocolClasses = [TunnelURLProtocol.self]
/// configuration.urlCache = nil  // on Linux: see below
/// let session = URLSession(configuration: configuration)
/// ```
///
/// Differences from the tunnel's own calls, all of them `URLProtocol`'s: redirects are followed by the tunnel, so the
/// session's delegate is not asked about them, and what a redirect sets as a cookie only `options.cookieStorage` learns of.
///
/// On Linux
///
/// - a protocol is not told that a task uploads or downloads when it is asked whether it takes it, sees no body of an upload
///   task, and has no place for the file of a download task: both fail with `unsupportedURL`. Use data tasks with an
///   `httpBody` or `httpBodyStream`, the tunnel's own `upload` and `download`, or a session without this protocol;
/// - the body of an answer is handed over in one piece when it is whole, because a session would keep the last one alone for a
///   completion handler. One of more than the tunnel's `options.maximumBodySize` fails with `dataLengthExceedsMaximum`. For
///   bodies that do not fit into memory use `HTTPTunnel.bytes` or `download`;
/// - a session writes the cookies of its storage into every request, and keeps none that come. With `options.cookieStorage`
///   they are replaced by those of that storage, and so is a `Cookie` field of your own;
/// - a task that is suspended goes on, and its answer waits until it is resumed: to begin anew could carry it out twice;
/// - a session that has a cache may trap, with any protocol, when a task is cancelled before the cache was looked up: so give
///   it none. What comes by a tunnel is not cached in any case; what your closure leaves to the session is not, either, then.
public final class TunnelURLProtocol: URLProtocol {
    /// Which requests a tunnel takes; ends with `unregister()`, and not by being let go.
    public struct Registration: Sendable {
        fileprivate let id: UInt64

        /// The tunnel takes no more requests by this registration.
        public func unregister() {
            registered.withLock { registered in registered.entries.removeAll { $0.id == id } }
        }
    }

    fileprivate struct Entry: Sendable {
        let id: UInt64
        let tunnel: HTTPTunnel
        let isMeant: @Sendable (URLRequest) -> Bool
    }

    /// Has `tunnel` take the requests that `isMeant` is true of. Of several the latest counts. The tunnel and its client stay
    /// until it is unregistered.
    @discardableResult
    public static func register(
        _ tunnel: HTTPTunnel,
        for isMeant: @escaping @Sendable (URLRequest) -> Bool = { _ in true }
    ) -> Registration {
        registered.withLock { registered in
            registered.lastID += 1
            registered.entries.append(Entry(id: registered.lastID, tunnel: tunnel, isMeant: isMeant))
            return Registration(id: registered.lastID)
        }
    }

    private static func tunnel(for request: URLRequest) -> HTTPTunnel? {
        guard ["http", "https"].contains(request.url?.scheme?.lowercased()) else { return nil }
        // Asked outside the lock: it is the caller's code.
        return registered.withLock { $0.entries }.last { $0.isMeant(request) }?.tunnel
    }

    /// Whether a tunnel takes it.
    public override class func canInit(with request: URLRequest) -> Bool { tunnel(for: request) != nil }

    /// The request as it is.
    public override class func canonicalRequest(for request: URLRequest) -> URLRequest { request }

    private enum Stage {
        case idle
        case loading
        /// The answer is there, and is to be told on the session's queue.
        case loaded(TunnelAnswer)
        case told
    }

    private struct State {
        var stage = Stage.idle
        /// Counts the times it has begun: what an earlier time brings is late.
        var attempt = 0
        var task: Task<Void, Never>?
    }

    private let state = Lock(State())

    /// Asks the tunnel.
    public override func startLoading() {
        #if canImport(FoundationNetworking)
            // A task that was cancelled meanwhile hears of that next; one that was suspended is resumed some time.
            if let task, task.state != .running { return }
        #endif
        let (answer, attempt) = state.withLock { state -> (TunnelAnswer?, Int?) in
            switch state.stage {
            case .idle:
                state.attempt += 1
                state.stage = .loading
                return (nil, state.attempt)
            case .loaded(let answer):
                state.stage = .told
                return (answer, nil)
            case .loading, .told: return (nil, nil)
            }
        }
        if let answer { answer.tell(client, for: self) }
        guard let attempt else { return }
        guard let tunnel = Self.tunnel(for: request) else {
            return refuse("no tunnel is registered for it any more")
        }
        #if canImport(FoundationNetworking)
            if task is URLSessionUploadTask || task is URLSessionDownloadTask {
                return refuse(
                    "on Linux TunnelURLProtocol takes data tasks alone; HTTPTunnel itself has upload and download"
                )
            }
        #endif
        let (request, loading) = (request, TunnelLoading(owner: self, attempt: attempt))
        // Not structured: the session has no task of ours. It ends with the answer, or by `stopLoading`.
        let task = Task { await loading.run(request, through: tunnel) }
        state.withLock { $0.task = task }
    }

    private func refuse(_ reason: String) {
        let error = URLError(.unsupportedURL, reason: reason).failing(at: request.url)
        TunnelAnswer.failure(error).tell(client, for: self)
    }

    /// Gives the request up, unless its answer is there.
    public override func stopLoading() {
        #if canImport(FoundationNetworking)
            // It is suspended, and perhaps resumed already.
            if let task, task.state == .running || task.state == .suspended { return }
        #endif
        let task = state.withLock { state -> Task<Void, Never>? in
            guard case .loading = state.stage else { return nil }
            state.stage = .idle
            return state.task.take()
        }
        task?.cancel()
    }

    /// Keeps the answer of an attempt that is still wanted, and returns whether it is.
    func keep(_ answer: TunnelAnswer, of attempt: Int) -> Bool {
        state.withLock { state in
            guard case .loading = state.stage, state.attempt == attempt else { return false }
            (state.stage, state.task) = (.loaded(answer), nil)
            return true
        }
    }
}

private struct Registered: Sendable {
    var entries: [TunnelURLProtocol.Entry] = []
    var lastID: UInt64 = 0
}

private let registered = Lock(Registered())
