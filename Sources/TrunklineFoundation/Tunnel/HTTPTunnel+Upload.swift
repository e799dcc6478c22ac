import Foundation
import Trunkline

/// Requests whose body travels in pieces.
extension HTTPTunnel {
    private enum UploadStep: Sendable {
        /// The first frame of the reply, or why there is none.
        case head(Result<Response?, ClientError>)
        /// The body cannot be sent.
        case failed(URLError)
        /// Nothing has moved for too long.
        case expired
        /// Nothing to say: the reader of the reply has the last word.
        case over
    }

    /// A piece could not be sent. Its fate is not that of the request.
    private struct PieceFailure: Error {
        let error: ClientError
    }

    /// Sends the body in pieces and returns the first frame of the reply. One that comes before the last piece is sent is a
    /// refusal: the rest is not sent.
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
                        LinkFailure(ClientError(.timedOut, error.fate, "no progress in \(request.timeout)"))
                    )
                case .head(let result): return result.mapError { LinkFailure($0) }
                case .failed(let error): return .failure(LinkFailure(error))
                case .expired:
                    // The reader tells what has become of it.
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
            // A body that can be read once is not begun before its request is on a link.
            try await post(TunnelWire.window(0), false)
            try await body.forEachPiece { piece in
                watch.note()
                try await post(Request(body: Bytes(piece)), true)
            }
            try await post(Request(type: TunnelWire.messageType), false)
        } catch let failure as PieceFailure where failure.error.code == .invalidRequest {
            return .failed(URLError(failure.error))
        } catch is PieceFailure {
            // With the request: there is an answer, or the link is lost. How far the request came is the reader's to say, for this
            // piece may be unsent and those before it not.
        } catch {
            return Task.isCancelled ? .over : .failed(URLError(sourceFailure: error))
        }
        return .over
    }
}
