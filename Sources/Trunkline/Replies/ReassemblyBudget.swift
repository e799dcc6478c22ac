import Synchronization

/// How much may be held of replies that are reassembled from their parts: of each, and of all together.
///
/// What is held is counted atomically, because it is given back wherever the last reference to a reply is let go.
final class ReassemblyBudget: Sendable {
    /// Bytes of one reply.
    let perReply: Int
    private let inAll: Int
    private let held = Atomic<Int>(0)

    init(perReply: Int, inAll: Int) {
        self.perReply = max(0, perReply)
        self.inAll = max(0, inAll)
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

extension ReassemblyBudget {
    convenience init(_ options: ClientOptions.Requests) {
        self.init(perReply: options.maximumReplySize, inAll: options.maximumReassemblyBytes)
    }
}
