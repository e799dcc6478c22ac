import Foundation
import TrunklineCore
import TrunklineHTTP

extension HTTPTunnel {
    /// Returns when the head of the response has arrived.
    func overLink(_ request: TunnelRequest, waits: Bool) async -> Result<TunnelReply, LinkFailure> {
        do throws(URLError) {
            if let missing = sender.knownCodec?.missingForTunnels {
                throw URLError(.cannotLoadFromNetwork, reason: missing)
            }
            let head = try request.head(window: options.window)
            let isWhole = (request.body.count ?? .max) <= TunnelWire.pieceSize
            let frames = try await open(request, head, isWhole, waits)
            let first: Response?
            do throws(LinkFailure) {
                first = try await (isWhole ? Self.first(of: frames) : upload(request, in: frames)).get()
            } catch {
                frames.cancel()
                return .failure(error)
            }
            guard let first else { return .failure(LinkFailure(URLError(.networkConnectionLost), .ifIdempotent)) }
            return try answer(first, to: request, frames, timeout: isWhole ? nil : request.timeout)
        } catch {
            return .failure(LinkFailure(error))
        }
    }

    private func open(
        _ request: TunnelRequest,
        _ head: Bytes,
        _ isWhole: Bool,
        _ waits: Bool
    ) async throws(URLError) -> ReplyStream<Response> {
        var message = Request(type: isWhole ? TunnelWire.messageType : 0, body: head)
        if isWhole, case .data(let data) = request.body { message.body = Bytes(Array(head) + data) }
        if isWhole, case .file = request.body {
            let content = BodyCollector(limit: TunnelWire.pieceSize)
            do { try await request.body.forEachPiece { try await content.append($0) } } catch {
                throw URLError(sourceFailure: error)
            }
            if case .data(let data) = content.body { message.body = Bytes(Array(head) + data) }
        }
        let buffering = ReplyBuffering(
            maximumCount: options.window / 256 + 16,
            maximumBytes: options.window + TunnelWire.pieceSize + HTTP1Opening.maximumHead,
            overflow: .fail
        )
        // The client's default policy may retry requests. Requests that are not idempotent must not be sent twice.
        let retry: RetryPolicy = !waits ? .never : request.isIdempotent ? .default : .ifUnsent
        let callOptions = CallOptions(retry: retry, waitsForReady: waits)
        guard isWhole else {
            return sender.open(
                message,
                timeout: .default,
                partTimeout: .never,
                options: callOptions,
                buffering: buffering
            ).responses
        }
        let partTimeout = Timeout.after(request.timeout)
        return sender.stream(
            message,
            timeout: .default,
            partTimeout: partTimeout,
            options: callOptions,
            buffering: buffering
        )
    }

    private static func first(of frames: ReplyStream<Response>) async -> Result<Response?, LinkFailure> {
        var iterator = frames.makeAsyncIterator()
        do throws(ClientError) { return .success(try await iterator.next()) } catch {
            return .failure(LinkFailure(error))
        }
    }

    private func answer(
        _ first: Response,
        to request: TunnelRequest,
        _ frames: ReplyStream<Response>,
        timeout: Duration?
    ) throws(URLError) -> Result<TunnelReply, LinkFailure> {
        if first.type == TunnelWire.abortType {
            return .failure(LinkFailure(URLError(TunnelWire.abortCode(in: first))))
        }
        let message: HTTP1Response, opening: HTTP1Opening
        do throws(FrameError) { (message, opening) = try HTTP1Opening.response(first.body) } catch {
            frames.cancel()
            let hint = "check that the server is a gateway and that both ends use the same codec"
            throw URLError(
                .badServerResponse,
                reason: "the response is not valid HTTP/1.1 (\(error)); \(hint)",
                underlying: error
            )
        }
        guard let response = TunnelResponse(message, from: request.url) else { throw URLError(.badServerResponse) }
        let isEmpty = request.method == "HEAD" || message.status == 204 || message.status == 304
        let body = try LinkBody(
            frames,
            first: Data(message.body),
            isOver: !first.isPart,
            length: isEmpty ? 0 : opening.contentLength,
            window: options.window,
            timeout: timeout
        )
        let reply = TunnelReply(response: response, body: Body(.link(body), of: request.url))
        guard let verdict = response.verdict, let code = verdict.code else { return .success(reply) }
        let error = URLError(code, reason: "the gateway could not get a response from the origin")
        return .failure(LinkFailure(error, Fallback(after: verdict)))
    }
}

extension ProtocolCodec {
    fileprivate var missingForTunnels: String? {
        if !isWindowUpdate(Frame(.request, type: TunnelWire.windowType)) {
            return "the client's codec does not support window updates of type 0x405 (WindowedCodec.isWindowUpdate(_:))"
        }
        guard !cancels(TunnelWire.messageType) else { return nil }
        return "the client's codec has no cancel frame (CancellingCodec.cancelFrame(for:type:))"
    }
}
