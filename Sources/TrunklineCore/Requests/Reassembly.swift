import Synchronization

/// Joins the parts of a reply for a caller that wants the whole.
final class Reassembly {
    private(set) var firstPart: Instant?
    private var bodies: [UInt8] = []
    private var isErrorResponse = false
    private let budget: ReassemblyBudget
    private var taken = 0

    init(in budget: ReassemblyBudget) { self.budget = budget }

    // Runs however the request ends, and when it is retried without the parts that have arrived.
    deinit { budget.giveBack(taken) }

    func add(_ part: Frame, at now: Instant) -> String? {
        firstPart = firstPart ?? now
        if part.isErrorResponse, !isErrorResponse { bodies = [] }  // an error response replaces the reply so far
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

    private var tooLong: String { "the reply is longer than \(budget.perReply) bytes (maximumReplySize)" }

    /// An error response that came whole is passed on unchanged.
    func completed(_ outcome: Outcome) -> Outcome {
        if isErrorResponse, case .failure(let error) = outcome {
            return .failure(error.rejected(after: bodies, upTo: budget.perReply))
        }
        guard case .success(var response) = outcome, !bodies.isEmpty else { return outcome }
        guard hasRoom(for: response.frame) else { return .failure(ClientError(.overloaded, .answered, tooLong)) }
        bodies += response.body
        response.frame.body = Bytes(bodies)
        return .success(response)
    }
}

extension ClientError {
    /// A body longer than `maximumSize` bytes is truncated and marked as malformed.
    func rejected(after bodies: [UInt8], upTo maximumSize: Int) -> ClientError {
        guard code == .rejected, var frame = response?.frame else { return self }
        if bodies.count + frame.body.count > maximumSize { frame.malformedReason = .illegalLength }
        frame.body = Bytes(Array((bodies + frame.body).prefix(maximumSize)))
        return changed { $0.response = Response(frame) }
    }
}

/// The limits on replies that are being reassembled: for each one and for all together. The count is atomic, because it
/// is decreased wherever the last reference to a reply is released.
final class ReassemblyBudget: Sendable {
    let perReply: Int
    private let inAll: Int
    private let held = Atomic<Int>(0)

    init(_ options: ClientOptions.Requests) {
        perReply = max(0, options.maximumReplySize)
        inAll = max(0, options.maximumReassemblyBytes)
    }

    func take(_ count: Int) -> String? {
        // Called on one event loop only, so the room that is seen cannot be taken by another thread.
        guard count <= inAll - held.load(ordering: .relaxed) else {
            return "the replies being reassembled exceed \(inAll) bytes in total (maximumReassemblyBytes)"
        }
        held.wrappingAdd(count, ordering: .relaxed)
        return nil
    }

    var isEmpty: Bool { held.load(ordering: .relaxed) == 0 }

    func giveBack(_ count: Int) { held.wrappingSubtract(count, ordering: .relaxed) }
}
