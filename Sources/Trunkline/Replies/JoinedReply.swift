import TrunklineCore

/// The parts of a reply to a caller who wants it in one piece: their bodies, in front of that of the response.
///
/// Sendable although it is not checked: touched on its client's loop only, where responses come and requests end.
final class JoinedReply: @unchecked Sendable {
    /// Who waits for the whole.
    let waiter: Waiter
    private var bodies: [UInt8] = []
    /// Whether the parts are those of a rejection.
    private var isRejection = false
    private let maximumSize: Int

    init(for waiter: Waiter, upTo maximumSize: Int) {
        self.waiter = waiter
        self.maximumSize = maximumSize
    }

    /// Adds a part. Returns why it is too much, if it is.
    func add(_ part: Frame) -> String? {
        guard hasRoom(for: part) else { return tooLong }
        bodies += part.body
        isRejection = part.isRejection
        return nil
    }

    private func hasRoom(for frame: Frame) -> Bool { frame.body.count <= maximumSize - bodies.count }

    private var tooLong: String { "the parts of the reply are more than \(maximumSize) bytes" }

    /// The request has ended. A rejection is the server's last word and stays as it is, unless the parts are its own.
    func complete(_ outcome: Outcome) {
        if isRejection, case .failure(let error) = outcome, error.code == .rejected, var frame = error.response {
            bodies += frame.body.prefix(max(0, maximumSize - bodies.count))
            frame.body = Bytes(bodies)
            return waiter.resume(.failure(.rejection(frame)))
        }
        guard case .success(var frame) = outcome, !bodies.isEmpty else { return waiter.resume(outcome) }
        guard hasRoom(for: frame) else {
            return waiter.resume(.failure(ClientError(.overloaded, .answered, tooLong)))
        }
        bodies += frame.body
        frame.body = Bytes(bodies)
        waiter.resume(.success(frame))
    }
}
