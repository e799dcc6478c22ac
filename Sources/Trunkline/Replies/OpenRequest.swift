import Synchronization

/// A request that goes out in pieces, as the server takes them, while its reply comes: see `Client.open`.
///
/// Pieces go out in the order of the calls, on the link of the request and with its serial, and share that link with the
/// requests of others: have one call under way at a time, and pieces of some kilobytes, so that neither those nor memory
/// suffer. When the reply has ended before the last piece was sent, the server is told so by a cancel frame.
///
/// The request is cancelled when this value, `responses` and all iterators have been destroyed before the end of the reply:
/// see `ReplyStream`.
public struct OpenRequest: Sendable {
    /// The reply as it comes. It can be read while pieces are being sent.
    public let responses: ReplyStream<Response>
    private let progress = Progress()

    /// Whether the last piece was sent, which all copies of this value have to know.
    private final class Progress: Sendable {
        let isFinished = Atomic<Bool>(false)
    }

    init(_ responses: ReplyStream<Response>) { self.responses = responses }

    /// Sends one more piece, with more to come: its frame is of kind `part`.
    ///
    /// Returns when the kernel has its last byte: this is how a slow server holds up an upload. Before the request has gone
    /// out it waits for that.
    ///
    /// Cancelling the task takes the piece back if nothing of it is written, fate `notSent`; the request goes on all the
    /// same. A piece that is half written goes out whole, fate `unknown`.
    ///
    /// - Throws: `closed` when the reply has ended: read it. What the reply ends with when it fails, `connectionLost` when
    ///   its link is lost, `cancelled` when the request is given up. `invalidRequest` when the piece cannot be encoded, after
    ///   `finish`, and in protocols that have no requests in pieces. The fate is that of this piece alone: `notSent` or
    ///   `unknown`.
    public func send(_ piece: Request) async throws(ClientError) {
        guard !progress.isFinished.load(ordering: .acquiring) else { throw .finished }
        try await responses.post(piece, isPart: true)
    }

    /// Sends the last piece. Otherwise as `send(_:)`. When it fails with the fate `notSent`, it may be called again.
    ///
    /// It may be empty, but has the type by which the server knows it: with `.standard` it is 0x403. The pieces before it have
    /// type 0x404 there, also where it is left at 0.
    public func finish(_ piece: Request) async throws(ClientError) {
        guard !progress.isFinished.exchange(true, ordering: .acquiringAndReleasing) else { throw .finished }
        do throws(ClientError) {
            try await responses.post(piece)
        } catch {
            if error.fate == .notSent { progress.isFinished.store(false, ordering: .releasing) }
            throw error
        }
    }

    /// Cancels the request at once, and ends `responses`. No effect after the end.
    public func cancel() { responses.cancel() }
}

extension ClientError {
    fileprivate static var finished: ClientError {
        ClientError(.invalidRequest, .notSent, "the last piece of the request has been sent")
    }
}
