import Foundation
import TrunklineCore
import TrunklineHTTP

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension HTTPTunnel {
    /// The limit of URLSession.
    private static let maximumRedirects = 20

    func run(_ request: URLRequest, _ body: TunnelBody, _ policy: Policy?) async throws(URLError) -> TunnelReply {
        var url = request.url
        var earlierFate = ClientError.Fate.notSent
        do throws(URLError) {
            var current = try TunnelRequest(request, body, adding: options.httpAdditionalHeaders)
            for _ in 0...Self.maximumRedirects {
                url = current.url
                let reply = try await perform(withCookies(current), policy ?? options.policy)
                keepCookies(of: reply.response, current)
                guard let next = try current.redirected(by: reply.response) else { return reply }
                reply.body.cancel()
                earlierFate = .answered
                current = next
            }
            throw URLError(.httpTooManyRedirects)
        } catch {
            throw error.after(earlierFate).failing(at: url)
        }
    }

    private func withCookies(_ request: TunnelRequest) -> TunnelRequest {
        guard request.handlesCookies, request.headers["Cookie"] == nil,
            let cookies = options.cookieStorage?.cookies(for: request.url), !cookies.isEmpty
        else { return request }
        var request = request
        for (name, value) in HTTPCookie.requestHeaderFields(with: cookies) { request.headers[name] = value }
        return request
    }

    private func keepCookies(of response: TunnelResponse, _ request: TunnelRequest) {
        guard request.handlesCookies, let storage = options.cookieStorage,
            let value = response.value(forHTTPHeaderField: "Set-Cookie")
        else { return }
        let cookies = HTTPCookie.cookies(withResponseHeaderFields: ["Set-Cookie": value], for: request.url)
        storage.setCookies(cookies, for: request.url, mainDocumentURL: nil)
    }

    private func perform(_ request: TunnelRequest, _ policy: Policy) async throws(URLError) -> TunnelReply {
        counters.withLock { $0.requests += 1 }
        let reply: TunnelReply
        switch policy {
        case .directOnly: reply = try await directly(request).get()
        case .linkOnly: reply = try await Self.unwrapped(overLink(request, waits: true))
        case .preferLink(let delay):
            reply =
                request.isIdempotent && request.body.isRepeatable && !request.isStream
                ? try await race(request, hedgeAfter: delay) : try await once(request)
        }
        let isDirect = reply.response.way == .direct
        counters.withLock { isDirect ? ($0.direct += 1) : ($0.link += 1) }
        return reply
    }

    private static func unwrapped(_ result: Result<TunnelReply, LinkFailure>) throws(URLError) -> TunnelReply {
        do throws(LinkFailure) { return try result.get() } catch { throw error.error }
    }

    private func directly(_ request: TunnelRequest) async -> Result<TunnelReply, URLError> {
        do throws(URLError) {
            let prepared = try request.direct()
            let body = try await request.body.originBody(limit: options.maximumUploadSpool, timeout: request.timeout)
            let transfer = origins.begin(prepared, body: body, timeout: request.timeout)
            let kept = Body(.origin(transfer), of: request.url)
            let response = try await transfer.response
            guard let response = TunnelResponse(response, from: request.url) else {
                throw URLError(.badServerResponse)
            }
            return .success(TunnelReply(response: response, body: kept))
        } catch {
            return .failure(error)
        }
    }

    /// For a request that must not be performed twice.
    private func once(_ request: TunnelRequest) async throws(URLError) -> TunnelReply {
        let result = await overLink(request, waits: false)
        guard Fallback(after: result) == .always, request.body.isRepeatable, !Task.isCancelled else {
            return try Self.unwrapped(result)
        }
        counters.withLock { $0.fallbacks += 1 }
        return try await directly(request).get()
    }

    private enum Event: Sendable {
        case link(Result<TunnelReply, LinkFailure>)
        case direct(Result<TunnelReply, URLError>)
        case slow
    }

    /// For an idempotent request. The first response wins.
    private func race(_ request: TunnelRequest, hedgeAfter delay: Duration) async throws(URLError) -> TunnelReply {
        let result = await withTaskGroup(of: Event.self) { group -> Result<TunnelReply, URLError> in
            group.addTask { .link(await self.overLink(request, waits: false)) }
            group.addTask {
                try? await Task.sleep(for: min(delay, .seconds(100 * 365 * 86400)))  // clocks trap on larger values
                return .slow
            }
            let winner = await self.winner(of: &group, request)
            group.cancelAll()
            // Cancel the other route, even if its response has just arrived.
            while let event = await group.next() {
                switch event {
                case .link(.success(let reply)), .direct(.success(let reply)): reply.body.cancel()
                default: break
                }
            }
            return winner
        }
        return try result.get()
    }

    private func winner(of group: inout TaskGroup<Event>, _ request: TunnelRequest) async -> Result<
        TunnelReply, URLError
    > {
        var (isDirectUnderWay, isHedge) = (false, false)
        var linkResult: Result<TunnelReply, URLError>?
        var directError: URLError?
        while let event = await group.next() {
            switch event {
            case .link(let result):
                let fallback = Fallback(after: result)
                let plain = result.mapError(\.error)
                if case .success = plain, fallback == .none { return plain }
                linkResult = plain
                if isDirectUnderWay { continue }
                if let directError { return Self.last(plain, directError) }
                guard !Task.isCancelled, fallback != .none else { return plain }
                counters.withLock { $0.fallbacks += 1 }
                isDirectUnderWay = true
                group.addTask { .direct(await self.directly(request)) }
            case .slow:
                guard !Task.isCancelled, !isDirectUnderWay, linkResult == nil, withdraw() else { continue }
                counters.withLock { $0.hedges += 1 }
                (isDirectUnderWay, isHedge) = (true, true)
                group.addTask { .direct(await self.directly(request)) }
            case .direct(.success(let reply)):
                if isHedge { counters.withLock { $0.hedgesWon += 1 } }
                return .success(reply)
            case .direct(.failure(let error)):
                isDirectUnderWay = false
                directError = error
                if let linkResult { return Self.last(linkResult, error) }
            }
        }
        return linkResult ?? .failure(URLError(.cancelled))
    }

    /// The gateway's own response says more than the error of the direct route.
    private static func last(
        _ link: Result<TunnelReply, URLError>,
        _ direct: URLError
    ) -> Result<TunnelReply, URLError> {
        if case .success = link { link } else { .failure(direct) }
    }

    private func withdraw() -> Bool {
        guard let budget else { return true }
        let now = Instant(nanoseconds: Int64(clamping: DispatchTime.now().uptimeNanoseconds))
        let requests = counters.withLock { $0.requests }
        if budget.withLock({ $0.withdraw(at: now, requests: requests) }) { return true }
        counters.withLock { $0.refusedByBudget += 1 }
        return false
    }
}
