import Trunkline
import TrunklineIO

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
/// let session = URLSession(configuration: configuration)
/// ```
///
/// Differences from the tunnel's own calls, all of them `URLProtocol`'s: redirects are followed by the tunnel, so the
/// session's delegate is not asked about them; cookies are those of the tunnel's options, and not the session's. On Linux a
/// protocol does not see the body of an upload task, so these are left to the session; and the body of an answer is handed over
/// in one piece when it is whole, because a session would keep the last one alone for a completion handler. For bodies that
/// do not fit into memory use `HTTPTunnel.bytes` or `download`.
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

    /// Whether a tunnel takes its request.
    public override class func canInit(with task: URLSessionTask) -> Bool {
        #if canImport(FoundationNetworking)
            if task is URLSessionUploadTask { return false }
        #endif
        return task.currentRequest.map { canInit(with: $0) } ?? false
    }

    /// The request as it is.
    public override class func canonicalRequest(for request: URLRequest) -> URLRequest { request }

    /// What asks, between `startLoading` and `stopLoading`.
    private let loading = Lock<Task<Void, Never>?>(nil)

    /// Asks the tunnel.
    public override func startLoading() {
        guard let tunnel = Self.tunnel(for: request) else {
            client?.urlProtocol(self, didFailWithError: URLError(.unsupportedURL))
            return
        }
        let (request, answer) = (request, Answer(self))
        // Not structured: the session has no task of ours. It ends with the answer, or by `stopLoading`.
        let task = Task { await answer.load(request, through: tunnel) }
        loading.withLock { $0 = task }
    }

    /// Gives the request up.
    public override func stopLoading() {
        let task = loading.withLock { loading in
            defer { loading = nil }
            return loading
        }
        task?.cancel()
    }
}

private struct Registered: Sendable {
    var entries: [TunnelURLProtocol.Entry] = []
    var lastID: UInt64 = 0
}

private let registered = Lock(Registered())

/// Tells a session what came.
///
/// Sendable although a `URLProtocol` is not: of it only `client` is used, which is constant, and its callbacks may come
/// from any thread, one after the other, which they do here.
private struct Answer: @unchecked Sendable {
    private let owner: URLProtocol

    init(_ owner: URLProtocol) { self.owner = owner }

    func load(_ request: URLRequest, through tunnel: HTTPTunnel) async {
        guard let client = owner.client else { return }
        do throws(URLError) {
            let (body, response) = try await tunnel.bytes(for: request)
            #if canImport(FoundationNetworking)
                var whole = Data()
                while let piece = try await body.storage.next() { whole += piece }
                client.urlProtocol(owner, didReceive: response, cacheStoragePolicy: .notAllowed)
                client.urlProtocol(owner, didLoad: whole)
            #else
                client.urlProtocol(owner, didReceive: response, cacheStoragePolicy: .notAllowed)
                while let piece = try await body.storage.next() { client.urlProtocol(owner, didLoad: piece) }
            #endif
            client.urlProtocolDidFinishLoading(owner)
        } catch {
            // A session that has cancelled it knows.
            if error.code != .cancelled || !Task.isCancelled { client.urlProtocol(owner, didFailWithError: error) }
        }
    }
}
