import Foundation
import Trunkline

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// What a session is told.
enum TunnelAnswer: Sendable {
    case whole(Data, URLResponse)
    case failure(URLError)

    func tell(_ client: (any URLProtocolClient)?, for owner: URLProtocol) {
        switch self {
        case .whole(let data, let response):
            client?.urlProtocol(owner, didReceive: response, cacheStoragePolicy: .notAllowed)
            client?.urlProtocol(owner, didLoad: data)
            client?.urlProtocolDidFinishLoading(owner)
        case .failure(let error): client?.urlProtocol(owner, didFailWithError: error)
        }
    }
}

/// One attempt to load, from `startLoading` on.
///
/// Sendable although a `URLProtocol` is not: of it are used what is behind its lock, and `task` and `client`, which are
/// constant.
struct TunnelLoading: @unchecked Sendable {
    let owner: TunnelURLProtocol
    let attempt: Int

    #if canImport(FoundationNetworking)
        /// The session of Linux looks up what becomes of a task without a lock, on its work queue, and traps when the task has
        /// ended: so it is told there alone. The one way onto that queue is to resume a task that runs: it calls `startLoading`
        /// again, and does nothing for one that was cancelled.
        func run(_ request: URLRequest, through tunnel: HTTPTunnel) async {
            var request = request
            // The session's: it does not keep what comes, so these may be old.
            if tunnel.options.cookieStorage != nil { request.setValue(nil, forHTTPHeaderField: "Cookie") }
            let answer: TunnelAnswer
            do throws(URLError) {
                let (data, response) = try await tunnel.data(for: request)
                answer = .whole(data, response)
            } catch {
                answer = .failure(error)
            }
            guard owner.keep(answer, of: attempt) else { return }
            // One without a task was made by hand.
            guard let task = owner.task else { return owner.startLoading() }
            // It waits for that queue, which no task of the cooperative pool may do. One that is suspended will be resumed.
            DispatchQueue.global().async { if task.state == .running { task.resume() } }
        }
    #else
        func run(_ request: URLRequest, through tunnel: HTTPTunnel) async {
            guard let client = owner.client else { return }
            do throws(URLError) {
                let (body, response) = try await tunnel.bytes(for: request)
                client.urlProtocol(owner, didReceive: response, cacheStoragePolicy: .notAllowed)
                while let piece = try await body.storage.next() { client.urlProtocol(owner, didLoad: piece) }
                client.urlProtocolDidFinishLoading(owner)
            } catch {
                // A session that has cancelled it knows.
                if error.code != .cancelled || !Task.isCancelled { client.urlProtocol(owner, didFailWithError: error) }
            }
        }
    #endif
}
