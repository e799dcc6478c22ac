import Foundation
import TrunklineCore

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

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

/// One attempt to load a request.
///
/// Sendable although a `URLProtocol` is not: it uses only the state behind the protocol's lock, and constants.
struct TunnelLoading: @unchecked Sendable {
    let owner: TunnelURLProtocol
    let attempt: Int

    #if canImport(FoundationNetworking)
        /// The URLSession of Linux looks up a task's handler without a lock, on its work queue, and traps if the task
        /// has ended. So the result is reported only on that queue. The one way there is to resume a running task: the
        /// session then calls `startLoading` again, unless the task was cancelled.
        func run(_ request: URLRequest, through tunnel: HTTPTunnel) async {
            var request = request
            // These are the cookies of the session's storage, which does not store new ones, so they may be outdated.
            if tunnel.options.cookieStorage != nil { request.setValue(nil, forHTTPHeaderField: "Cookie") }
            let answer: TunnelAnswer
            do throws(URLError) {
                let (data, response) = try await tunnel.data(for: request)
                answer = .whole(data, response)
            } catch {
                answer = .failure(error)
            }
            guard owner.keep(answer, of: attempt) else { return }
            // Without a task, the protocol was created directly and not by a session.
            guard let task = owner.task else { return owner.startLoading() }
            // `resume()` waits for that queue: not on the cooperative pool. A suspended task gets its result once
            // resumed.
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
                // A session that has cancelled the task expects no report.
                if error.code != .cancelled || !Task.isCancelled { client.urlProtocol(owner, didFailWithError: error) }
            }
        }
    #endif
}
