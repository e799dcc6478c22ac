import Synchronization

/// A request that is sent in pieces, as fast as the server takes them, while its reply arrives. See
/// ``Client/open(_:timeout:partTimeout:options:buffering:)``.
///
/// Pieces go out in the order of the calls, on the link of the request and with its serial. They share the link with
/// other requests. So make one call at a time, and send pieces of a few kilobytes: that keeps other requests fast and
/// memory small.
///
/// If the reply ends before the last piece was sent, a cancel frame tells the server that no more pieces follow.
///
/// The request is cancelled when this value, `responses` and all iterators have been deallocated before the end of the
/// reply. See ``ReplyStream``.
public struct OpenRequest: Sendable {
    /// The reply as it arrives. It can be read while pieces are being sent.
    public let responses: ReplyStream<Response>
    private let progress = Progress()

    /// Shared by all copies of the value.
    private final class Progress: Sendable {
        let isFinished = Atomic<Bool>(false)
    }

    package init(_ responses: ReplyStream<Response>) { self.responses = responses }

    /// Sends a piece that is not the last one, as a frame of kind `part`.
    ///
    /// The call waits until the request has gone out, and returns when the kernel has accepted the last byte of the
    /// piece. So a server that reads slowly slows down an upload.
    ///
    /// If the task is cancelled before the first byte of the piece is written, the piece is removed, fate `notSent`. If
    /// it is cancelled later, the rest of the piece is still written, fate `unknown`. The request continues in both
    /// cases.
    ///
    /// - Parameter piece: The piece.
    /// - Throws: A ``ClientError`` whose fate is that of this piece alone, `notSent` or `unknown`:
    ///   - `closed`: the reply has ended. Read it from `responses`.
    ///   - `connectionLost`: the link of the request was lost.
    ///   - `cancelled`: the task or the request was cancelled.
    ///   - `invalidRequest`: the piece cannot be encoded, `finish` was called before, or the protocol does not allow
    ///     requests in pieces.
    ///   - If the request has failed, the error with which `responses` ends.
    public func send(_ piece: Request) async throws(ClientError) {
        guard !progress.isFinished.load(ordering: .acquiring) else { throw .finished }
        try await responses.post(piece, isPart: true)
    }

    /// Sends the last piece. If it fails with the fate `notSent`, it may be called again.
    ///
    /// The piece may be empty, but it needs the type by which the server recognizes the end: with `.standard` this is
    /// 0x403. With `.standard`, the other pieces are sent with the type 0x404 if their type is 0. Otherwise the method
    /// behaves like ``OpenRequest/send(_:)``.
    ///
    /// - Parameter piece: The last piece.
    /// - Throws: A ``ClientError``, as ``OpenRequest/send(_:)`` does.
    public func finish(_ piece: Request) async throws(ClientError) {
        guard !progress.isFinished.exchange(true, ordering: .acquiringAndReleasing) else { throw .finished }
        do throws(ClientError) {
            try await responses.post(piece)
        } catch {
            if error.fate == .notSent { progress.isFinished.store(false, ordering: .releasing) }
            throw error
        }
    }

    /// Cancels the request and ends `responses`, as ``ReplyStream/cancel()`` does. Has no effect after the end of the
    /// reply.
    public func cancel() { responses.cancel() }
}

extension ClientError {
    fileprivate static var finished: ClientError {
        ClientError(.invalidRequest, .notSent, "the last piece of the request has already been sent")
    }
}
