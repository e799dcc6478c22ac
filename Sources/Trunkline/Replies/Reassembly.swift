import Synchronization

/// The parts of a reply to a caller who wants it in one piece: their bodies, in front of that of the response.
///
/// Sendable although it is not checked: touched on its client's loop only, where responses come and requests end.
final class Reassembly: @unchecked Sendable {
    /// Who waits for the whole.
    let waiter: Waiter
    private var bodies: [UInt8] = []
    /// Whether the parts are those of an error response.
    private var isErrorResponse = false
    private let budget: ReassemblyBudget
    /// How much room is taken.
    private var taken = 0

    init(for waiter: Waiter, in budget: ReassemblyBudget) {
        self.waiter = waiter
        self.budget = budget
    }

    // However the request ends, and also when it is tried again without what has come.
    deinit { budget.giveBack(taken) }

    /// Adds a part. Returns why it is too much, if it is.
    func add(_ part: Frame) -> String? {
        if part.isErrorResponse, !isErrorResponse { bodies = [] }  // the server has changed its mind
        isErrorResponse = part.isErrorResponse
        guard hasRoom(for: part) else { return tooLong }
        let missing = bodies.count + part.body.count - taken
        if missing > 0 {
            if let complaint = budget.take(missing) { return complaint }
            taken += missing
        }
        bodies += part.body
        return nil
    }

    private func hasRoom(for frame: Frame) -> Bool { frame.body.count <= budget.perReply - bodies.count }

    private var tooLong: String { "the parts of the reply are more than \(budget.perReply) bytes" }

    /// The request has ended. An error response is the server's last word and stays as it is, unless the parts are its
    /// own.
    func complete(_ outcome: Outcome) {
        if isErrorResponse, case .failure(let error) = outcome {
            return waiter.resume(.failure(error.rejected(after: bodies, upTo: budget.perReply)))
        }
        guard case .success(var response) = outcome, !bodies.isEmpty else { return waiter.resume(outcome) }
        guard hasRoom(for: response.frame) else {
            return waiter.resume(.failure(ClientError(.overloaded, .answered, tooLong)))
        }
        bodies += response.body
        response.frame.body = Bytes(bodies)
        waiter.resume(.success(response))
    }
}

extension ClientError {
    /// The same error; an error response with the bodies of the parts that came before its last frame in front of that
    /// one's. Of what is longer than so many bytes, the beginning, marked as malformed.
    func rejected(after bodies: [UInt8], upTo maximumSize: Int) -> ClientError {
        guard code == .rejected, var frame = response?.frame else { return self }
        if bodies.count + frame.body.count > maximumSize { frame.malformedReason = .illegalLength }
        frame.body = Bytes(Array((bodies + frame.body).prefix(maximumSize)))
        return changed { $0.response = Response(frame) }
    }
}

/// How much may be held of replies that are reassembled from their parts: of each, and of all together.
///
/// What is held is counted atomically, because it is given back wherever the last reference to a reply is let go.
final class ReassemblyBudget: Sendable {
    /// Bytes of one reply.
    let perReply: Int
    private let inAll: Int
    private let held = Atomic<Int>(0)

    init(_ options: ClientOptions.Requests) {
        perReply = max(0, options.maximumReplySize)
        inAll = max(0, options.maximumReassemblyBytes)
    }

    /// Takes room for so many bytes more; returns why there is none, if there is none.
    func take(_ count: Int) -> String? {
        // Takers are all on one loop: nobody else can take what is seen to be there.
        guard count <= inAll - held.load(ordering: .relaxed) else {
            return "the replies being reassembled are more than \(inAll) bytes together"
        }
        held.wrappingAdd(count, ordering: .relaxed)
        return nil
    }

    /// Whether nothing is held.
    var isEmpty: Bool { held.load(ordering: .relaxed) == 0 }

    func giveBack(_ count: Int) { held.wrappingSubtract(count, ordering: .relaxed) }
}
