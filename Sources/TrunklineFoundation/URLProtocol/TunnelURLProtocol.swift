import TrunklineCore

#if canImport(FoundationNetworking)
    import Foundation
    public import FoundationNetworking
#else
    public import Foundation
#endif

/// A `URLProtocol` that sends the requests of a `URLSession` through an ``HTTPTunnel``.
///
/// ```swift
/// TunnelURLProtocol.register(tunnel) { $0.url?.host == "api.example.com" }
/// let configuration = URLSessionConfiguration.default
/// configuration.protocolClasses = [TunnelURLProtocol.self]
/// configuration.urlCache = nil  // on Linux: see below
/// let session = URLSession(configuration: configuration)
/// ```
///
/// The tunnel follows redirects. So the session does not call its delegate for them, and only `options.cookieStorage`
/// stores cookies that a redirect sets.
///
/// On Linux:
/// - Upload tasks and download tasks fail with `unsupportedURL`: the session does not pass the kind of a task to
///   `canInit`, hides the body of an upload task, and cannot receive the file of a download task. Use data tasks with
///   an `httpBody` or `httpBodyStream`, ``HTTPTunnel/upload(for:from:policy:)-5ue05`` and
///   ``HTTPTunnel/download(for:policy:)``, or a session without this protocol.
/// - The body of a response is delivered in one piece, after all of it has arrived. If it were delivered in several
///   pieces, a completion handler would receive only the last one. A body of more than the tunnel's
///   `options.maximumBodySize` bytes fails with `dataLengthExceedsMaximum`. For larger bodies use
///   ``HTTPTunnel/bytes(for:policy:)`` or ``HTTPTunnel/download(for:policy:)``.
/// - The session adds the cookies of its storage to every request and stores none that it receives. With
///   `options.cookieStorage`, the cookies of that storage replace them, and also a `Cookie` field that the app sets.
///   Without it, set the session's `httpCookieStorage` to `nil`.
/// - The request of a suspended task continues, and its response is delivered when the task is resumed. If the request
///   were started again, it could be performed twice.
/// - A session with a cache may trap, with any `URLProtocol`, when a task is cancelled before the cache was looked up
///   (`FoundationNetworking`: “Trying to access a behaviour for a task that in not in the registry”). Set `urlCache` to
///   `nil`. Responses of a tunnel are never cached; without a cache, requests that the session handles itself are not
///   cached either.
public final class TunnelURLProtocol: URLProtocol {
    /// The registration of a tunnel. It lasts until ``unregister()``, even if this value is discarded.
    public struct Registration: Sendable {
        fileprivate let id: UInt64

        /// Ends the registration. The tunnel receives no more requests through it.
        public func unregister() {
            registered.withLock { registered in registered.entries.removeAll { $0.id == id } }
        }
    }

    fileprivate struct Entry: Sendable {
        let id: UInt64
        let tunnel: HTTPTunnel
        let isMeant: @Sendable (URLRequest) -> Bool
    }

    /// Registers `tunnel` for the requests for which `isMeant` returns `true`.
    ///
    /// If several registrations match, the latest is used. The registration holds the tunnel and its client until
    /// ``Registration/unregister()``.
    ///
    /// - Parameters:
    ///   - tunnel: The tunnel that sends the requests.
    ///   - isMeant: Whether the tunnel handles a request. Called for `http` and `https` URLs only, on any thread,
    ///     possibly several times for a request. Default: every request.
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
        // Called outside the lock: `isMeant` is the caller's code.
        return registered.withLock { $0.entries }.last { $0.isMeant(request) }?.tunnel
    }

    /// Returns whether a registered tunnel handles the request.
    public override class func canInit(with request: URLRequest) -> Bool { tunnel(for: request) != nil }

    /// Returns the request unchanged.
    public override class func canonicalRequest(for request: URLRequest) -> URLRequest { request }

    private enum Stage {
        case idle
        case loading
        /// To be reported on the session's queue.
        case loaded(TunnelAnswer)
        case told
    }

    private struct State {
        var stage = Stage.idle
        /// Results of an earlier attempt are ignored.
        var attempt = 0
        var task: Task<Void, Never>?
    }

    private let state = Lock(State())

    /// Sends the request through its tunnel.
    public override func startLoading() {
        #if canImport(FoundationNetworking)
            // A cancelled task is stopped next, and a suspended one continues when it is resumed.
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
            return refuse("no tunnel is registered for the request any more")
        }
        #if canImport(FoundationNetworking)
            if task is URLSessionUploadTask || task is URLSessionDownloadTask {
                return refuse(
                    "on Linux, TunnelURLProtocol supports only data tasks; use HTTPTunnel.upload or HTTPTunnel.download"
                )
            }
        #endif
        let (request, loading) = (request, TunnelLoading(owner: self, attempt: attempt))
        // Unstructured: the session has no task to be its parent. It ends with the response, or in `stopLoading`.
        let task = Task { await loading.run(request, through: tunnel) }
        state.withLock { $0.task = task }
    }

    private func refuse(_ reason: String) {
        let error = URLError(.unsupportedURL, reason: reason).failing(at: request.url)
        TunnelAnswer.failure(error).tell(client, for: self)
    }

    /// Cancels the request, unless its response has arrived.
    public override func stopLoading() {
        #if canImport(FoundationNetworking)
            // The task is suspended, and perhaps already resumed: not cancelled.
            if let task, task.state == .running || task.state == .suspended { return }
        #endif
        let task = state.withLock { state -> Task<Void, Never>? in
            guard case .loading = state.stage else { return nil }
            state.stage = .idle
            return state.task.take()
        }
        task?.cancel()
    }

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
