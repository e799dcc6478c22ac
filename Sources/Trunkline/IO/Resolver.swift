/// The system's resolver, which blocks, on a few threads of its own.
///
/// Threads are started when there is something to look up and end when there is nothing more. Whoever asks what is being
/// asked already gets the same answer, so a thousand clients of one server that went away need one look-up per family.
package final class Resolver: Sendable {
    /// Finds the addresses of a name, with port 0. Called on a thread of the resolver, which it may block.
    package typealias LookUp = @Sendable (String, AddressFamily) -> NameLookup.Answer

    /// The resolver of this process: at most eight threads, two for each name, so that names that hang (30 s without a reachable
    /// name server) leave something for the others, and no more than 1,024 names that wait for one.
    package static let shared = Resolver(maximumThreads: 8, maximumQueued: 1024, lookUp: systemLookUp)

    /// Identifies one question, so that it can be cancelled.
    package struct LookupID: Sendable {
        fileprivate let question: Question
        fileprivate let id: UInt64
    }

    fileprivate struct Question: Hashable, Sendable {
        let host: String
        let family: AddressFamily
    }

    private struct Asker: Sendable {
        let id: UInt64
        let port: UInt16
        let completion: NameLookup.Completion

        func tell(_ answer: NameLookup.Answer) { completion(answer.map { $0.map { $0.with(port: port) } }) }
    }

    private struct State: Sendable {
        /// By question, queued or under way; the latter perhaps with nobody left who asks.
        var askers: [Question: [Asker]] = [:]
        /// Questions that no thread has taken.
        var queue: [Question] = []
        var threads = 0
        var lookups = 0
        var peakThreads = 0
        var lastID: UInt64 = 0
    }

    private let state = Lock(State())
    private let maximumThreads: Int
    private let maximumQueued: Int
    private let lookUp: LookUp

    package init(maximumThreads: Int, maximumQueued: Int, lookUp: @escaping LookUp) {
        self.maximumThreads = maximumThreads
        self.maximumQueued = maximumQueued
        self.lookUp = lookUp
    }

    /// How many questions were put to the system, and the most threads there were at once.
    package var statistics: (lookups: Int, peakThreads: Int, threads: Int) {
        state.withLock { ($0.lookups, $0.peakThreads, $0.threads) }
    }

    /// Calls `completion` with the addresses of `host` in one family: once, on a thread of the resolver, or on the
    /// calling one when there are too many questions. Returns at once.
    package func resolve(
        _ host: String,
        port: UInt16,
        family: AddressFamily,
        completion: @escaping NameLookup.Completion
    ) -> LookupID {
        enum Outcome: Sendable { case waits, startThread, refused }
        let question = Question(host: host, family: family)
        let (id, outcome) = state.withLock { state -> (UInt64, Outcome) in
            state.lastID += 1
            let asker = Asker(id: state.lastID, port: port, completion: completion)
            if state.askers[question] != nil {
                state.askers[question]?.append(asker)
                return (asker.id, .waits)
            }
            guard state.queue.count < maximumQueued else { return (asker.id, .refused) }
            state.askers[question] = [asker]
            state.queue.append(question)
            guard state.threads < maximumThreads else { return (asker.id, .waits) }
            state.threads += 1
            state.peakThreads = max(state.peakThreads, state.threads)
            return (asker.id, .startThread)
        }
        switch outcome {
        case .waits: break
        case .startThread: start()
        case .refused:
            let name = host.withoutCredentials.escaped()
            let message = "resolving \(name): \(maximumQueued) names are waiting to be resolved already"
            completion(.failure(TransportError(.nameResolutionFailed, message)))
        }
        return LookupID(question: question, id: id)
    }

    /// The one who asked does not want to know any more; what nobody asks for any more is not looked up.
    package func cancel(_ lookupID: LookupID) {
        state.withLock { state in
            state.askers[lookupID.question]?.removeAll { $0.id == lookupID.id }
            guard state.askers[lookupID.question]?.isEmpty == true,
                let index = state.queue.firstIndex(of: lookupID.question)
            else { return }
            state.queue.remove(at: index)
            state.askers[lookupID.question] = nil
        }
    }

    private func start() {
        let code = startThread(named: "trunkline-dns") { self.run() }
        guard code != 0 else { return }
        // The threads there are go on with the queue; without any, nobody would.
        let stranded = state.withLock { state -> [Asker] in
            state.threads -= 1
            guard state.threads == 0 else { return [] }
            defer { state.queue = [] }
            return state.queue.flatMap { state.askers.removeValue(forKey: $0) ?? [] }
        }
        let error = transportError(code, "starting a thread to resolve names")
        for asker in stranded { asker.tell(.failure(error)) }
    }

    private func run() {
        while let question = takeQuestion() {
            let answer = lookUp(question.host, question.family)
            let askers = state.withLock { $0.askers.removeValue(forKey: question) ?? [] }
            for asker in askers { asker.tell(answer) }
        }
    }

    /// The next question; with none left, the thread is no longer counted.
    private func takeQuestion() -> Question? {
        state.withLock { state in
            guard !state.queue.isEmpty else {
                state.threads -= 1
                return nil
            }
            state.lookups += 1
            return state.queue.removeFirst()
        }
    }
}
