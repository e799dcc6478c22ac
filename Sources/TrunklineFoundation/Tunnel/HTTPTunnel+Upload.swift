import Foundation
import TrunklineCore

extension HTTPTunnel {
    private enum UploadStep: Sendable {
        case head(Result<Response?, ClientError>)
        case failed(URLError)
        case expired
        /// The reader of the reply determines the result.
        case over
    }

    private struct PieceFailure: Error {
        let error: ClientError
    }

    /// A reply that arrives before the last part was sent is a rejection: the rest of the body is not sent.
    func upload(_ request: TunnelRequest, in frames: ReplyStream<Response>) async -> Result<Response?, LinkFailure> {
        let watch = ProgressWatch(within: request.timeout)
        return await withTaskGroup(of: UploadStep.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                var iterator = frames.makeAsyncIterator()
                do throws(ClientError) { return .head(.success(try await iterator.next())) } catch {
                    return .head(.failure(error))
                }
            }
            group.addTask { await Self.send(request.body, in: frames, watch) }
            group.addTask { (try? await watch.stall()) == nil ? .over : .expired }
            var isExpired = false
            while let step = await group.next() {
                switch step {
                case .head(.failure(let error)) where isExpired && error.code == .cancelled:
                    return .failure(
                        LinkFailure(ClientError(.timedOut, error.fate, "no progress for \(request.timeout)"))
                    )
                case .head(let result): return result.mapError { LinkFailure($0) }
                case .failed(let error): return .failure(LinkFailure(error))
                case .expired:
                    // The reader of the reply then reports the fate of the request.
                    isExpired = true
                    group.cancelAll()
                case .over: break
                }
            }
            return .success(nil)
        }
    }

    private static func send(_ body: TunnelBody, in frames: ReplyStream<Response>, _ watch: ProgressWatch) async
        -> UploadStep
    {
        let post: @Sendable (Request, Bool) async throws -> Void = { piece, isPart in
            do throws(ClientError) { try await frames.post(piece, isPart: isPart) } catch {
                throw PieceFailure(error: error)
            }
            watch.note()
        }
        do {
            // A body that can be read only once must not be started before its request is on a link.
            try await post(TunnelWire.window(0), false)
            try await body.forEachPiece { piece in
                watch.note()
                try await post(Request(body: Bytes(piece)), true)
            }
            try await post(Request(type: TunnelWire.messageType), false)
        } catch let failure as PieceFailure where failure.error.code == .invalidRequest {
            // Earlier parts were sent.
            return .failed(URLError(failure.error).after(.unknown))
        } catch is PieceFailure {
            // The request has ended. The reader of the reply reports its fate: perhaps only this part was not sent.
        } catch {
            return Task.isCancelled ? .over : .failed(URLError(sourceFailure: error))
        }
        return .over
    }
}
