import Foundation
import Trunkline
import TrunklineCore
import TrunklineIO

/// Why a request was not answered over the link.
struct LinkFailure: Error {
    let error: URLError
    /// Whether the origin has not seen the request: it may go another way.
    let isUnsent: Bool
    /// Whether another way may be tried by those who may be carried out twice.
    let isOfLink: Bool

    init(_ error: ClientError) {
        self.error = URLError(error)
        isUnsent = error.fate == .notSent
        isOfLink = error.code != .cancelled && error.code != .timedOut
    }

    init(_ error: URLError, isUnsent: Bool = false, isOfLink: Bool = false) {
        (self.error, self.isUnsent, self.isOfLink) = (error, isUnsent, isOfLink)
    }

    init(any error: any Error) {
        if let error = error as? ClientError { self.init(error) } else { self.init(URLError(sourceFailure: error)) }
    }
}

/// One way: over the link.
extension HTTPTunnel {
    /// Sends `request` to the gateway and returns when the head of the response is there.
    func overLink(_ request: TunnelRequest, waits: Bool) async -> Result<TunnelReply, LinkFailure> {
        do throws(URLError) {
            let head = try request.head(window: options.window)
            let isWhole = (request.body.count ?? .max) <= TunnelWire.pieceSize
            let frames = try await open(request, head, isWhole, waits)
            let first: Frame?
            do {
                if isWhole {
                    var iterator = frames.makeAsyncIterator()
                    first = try await iterator.next()
                } else {
                    first = try await upload(request, in: frames)
                }
            } catch {
                frames.cancel()
                return .failure(LinkFailure(any: error))
            }
            guard let first else { return .failure(LinkFailure(URLError(.networkConnectionLost), isOfLink: true)) }
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
    ) async throws(URLError) -> ReplyStream {
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
        return client.stream(
            message,
            isPart: !isWhole,
            partTimeout: isWhole ? request.timeout : .seconds(365 * 86400),
            retry: waits ? nil : .never,
            waitsForReady: waits,
            buffering: buffering
        )
    }

    private enum UploadStep: Sendable {
        case head(Frame?)
        case sent
        case expired
    }

    /// Sends the body in pieces and returns the first frame of the reply. One that comes before the last piece is sent is a
    /// refusal: the rest is not sent.
    private func upload(_ request: TunnelRequest, in frames: ReplyStream) async throws -> Frame? {
        let timeout = request.timeout
        return try await withThrowingTaskGroup(of: UploadStep.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                var iterator = frames.makeAsyncIterator()
                return .head(try await iterator.next())
            }
            group.addTask {
                do {
                    // A body that can be read once is not begun before its request is on a link.
                    try await withTimeout(timeout) { try await frames.post(TunnelWire.window(0)) }
                    try await request.body.forEachPiece { piece in
                        try await withTimeout(timeout) {
                            try await frames.post(Request(body: Bytes(piece)), isPart: true)
                        }
                    }
                    try await frames.post(Request(type: TunnelWire.messageType))
                } catch let error as ClientError where error.code == .closed {}  // there is an answer
                return .sent
            }
            while let step = try await group.next() {
                switch step {
                case .head(let frame): return frame
                case .sent:
                    group.addTask {
                        try await Task.sleep(for: timeout)
                        return .expired
                    }
                case .expired: throw URLError(.timedOut)
                }
            }
            return nil
        }
    }

    private func answer(
        _ first: Frame,
        to request: TunnelRequest,
        _ frames: ReplyStream,
        timeout: Duration?
    ) throws(URLError) -> Result<TunnelReply, LinkFailure> {
        if first.type == TunnelWire.abortType {
            return .failure(LinkFailure(URLError(TunnelWire.abortCode(in: first))))
        }
        let message: HTTP1Response, opening: HTTP1Opening
        do throws(FrameError) { (message, opening) = try HTTP1Opening.response(first.body) } catch {
            frames.cancel()
            throw URLError(.badServerResponse, reason: "\(error)", underlying: error)
        }
        guard let response = TunnelResponse(message, from: request.url) else { throw URLError(.badServerResponse) }
        let isEmpty = request.method == "HEAD" || message.status == 204 || message.status == 304
        let body = try LinkBody(
            frames,
            first: Data(message.body),
            isOver: first.kind != .part,
            length: isEmpty ? 0 : opening.contentLength,
            window: options.window,
            timeout: timeout
        )
        let reply = TunnelReply(response: response, body: Body(.link(body)))
        guard let verdict = response.verdict, let code = verdict.code else { return .success(reply) }
        let error = URLError(code, reason: "the gateway could not reach the origin")
        return .failure(LinkFailure(error, isUnsent: verdict.isUnperformed))
    }
}
