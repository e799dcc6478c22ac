/// Runs the system's resolver, which blocks, on a few dedicated threads.
///
/// Threads are started when there are names to look up, and end when there are none left. Requests for a name that is
/// already being looked up share the result, so a thousand clients of one lost server need one look-up per family.
package final class Resolver: Sendable {
    /// Looks up the addresses of a name, with port 0. Called on a thread of the resolver, which it may block.
    package typealias LookUp = @Sendable (String, AddressFamily) -> NameLookup.Answer

    /// The resolver of this process.
    ///
    /// It has at most eight threads: two for each name, so that names whose look-up hangs (30 s without a reachable
    /// name server) leave threads for the others. At most 1,024 names may wait for a thread.
    package static let shared = Resolver(maximumThreads: 8, maximumQueued: 1024, lookUp: systemLookUp)

    /// Identifies one request, for cancellation.
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
        /// The requests for each question that is queued or being looked up. The list of a question that is being
        /// looked up may be empty.
        var askers: [Question: [Asker]] = [:]
        /// Questions that no thread has taken yet.
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

    /// The number of look-ups passed to the system, the largest number of threads so far, and the present number.
    package var metrics: (lookups: Int, peakThreads: Int, threads: Int) {
        state.withLock { ($0.lookups, $0.peakThreads, $0.threads) }
    }

    /// Looks up the addresses of `host` in one family and calls `completion` once with the result.
    ///
    /// `completion` runs on a thread of the resolver, or on the calling thread if too many questions are queued. This
    /// method returns at once.
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
            let message = "resolving \(name): too many lookups: \(maximumQueued) names are already waiting"
            completion(.failure(TransportError(.nameResolutionFailed, message)))
        }
        return LookupID(question: question, id: id)
    }

    /// Cancels one request. A queued question without requests is removed from the queue.
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
        // Existing threads serve the queue. If there are none, every request fails.
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

    /// Takes the next question. If there is none, returns `nil` and the thread is no longer counted.
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
