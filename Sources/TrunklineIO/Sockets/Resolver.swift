/// Runs the system's resolver, which blocks, on a few threads that end when there are no names left to look up.
/// Requests for the same name share one look-up.
///
/// A look-up takes up to 30 s if its name server does not answer, and then occupies its thread. Therefore:
/// - Names that this host knows itself have threads of their own, which no other name can occupy.
/// - A name occupies at most two threads, one for each family.
/// - Names whose latest look-up was slow occupy at most half of the threads.
package final class Resolver: Sendable {
    /// Returns addresses with port 0. May block its thread, which is one of the resolver.
    typealias LookUp = @Sendable (String, AddressFamily) -> NameLookup.Answer

    typealias IsLocal = @Sendable (String, AddressFamily) -> Bool

    package static let shared = Resolver(
        maximumThreads: 64,
        maximumQueued: 16_384,
        isLocal: isKnownToThisHost,
        lookUp: systemLookUp
    )

    static let localThreads = 2

    private static let maximumSlow = 4096

    package struct LookupID: Sendable {
        fileprivate let question: Question
        fileprivate let id: UInt64
    }

    fileprivate struct Question: Hashable, Sendable {
        let host: String
        let family: AddressFamily
    }

    private struct Asker: Sendable {
        let port: UInt16
        let completion: NameLookup.Completion

        func tell(_ answer: NameLookup.Answer) { completion(answer.map { $0.map { $0.with(port: port) } }) }
    }

    private enum Kind: Int, CaseIterable {
        case fresh
        case local
        case remote
        case slow
    }

    private struct Lookup: Sendable {
        var askers: [UInt64: Asker]
        /// In the queue of its kind; `nil` while a thread has it.
        var place: UInt64?
        var kind = Kind.fresh

        var hasBegun: Bool { place == nil && kind != .fresh }
    }

    private struct Queue: Sendable {
        private var questions: [UInt64: Question] = [:]
        private var first: UInt64 = 0
        private var next: UInt64 = 0

        mutating func append(_ question: Question) -> UInt64 {
            questions[next] = question
            next += 1
            return next - 1
        }

        mutating func remove(_ place: UInt64) { questions[place] = nil }

        mutating func popFirst() -> Question? {
            while first < next {
                first += 1
                if let question = questions.removeValue(forKey: first - 1) { return question }
            }
            questions = [:]
            return nil
        }
    }

    private struct State: Sendable {
        var lookups: [Question: Lookup] = [:]
        var queues = Kind.allCases.map { _ in Queue() }
        var running = Kind.allCases.map { _ in 0 }
        var slow: Set<String> = []
        var threads = 0
        var begun = 0
        var peakThreads = 0
        var lastID: UInt64 = 0

        var queued: Int { lookups.count - running.reduce(0, +) }

        mutating func enqueue(_ question: Question, _ kind: Kind) {
            lookups[question]?.kind = kind
            lookups[question]?.place = queues[kind.rawValue].append(question)
        }

        mutating func begin(_ question: Question, _ kind: Kind) {
            lookups[question]?.kind = kind
            lookups[question]?.place = nil
            running[kind.rawValue] += 1
            begun += 1
        }

        mutating func end(_ question: Question) {
            if let kind = lookups[question]?.kind { running[kind.rawValue] -= 1 }
        }

        func hasThread(for kind: Kind, of maximumThreads: Int) -> Bool {
            guard kind != .local else { return true }
            let slow = running[Kind.slow.rawValue]
            return running[Kind.remote.rawValue] + slow < maximumThreads
                && (kind != .slow || slow < max(1, maximumThreads / 2))
        }
    }

    private let state = Lock(State())
    private let maximumThreads: Int
    private let maximumQueued: Int
    private let slowAfter: Duration
    private let isLocal: IsLocal
    private let lookUp: LookUp

    /// Look-ups beyond `maximumQueued` fail at once. `maximumThreads` does not include `localThreads`.
    init(
        maximumThreads: Int,
        maximumQueued: Int,
        slowAfter: Duration = .seconds(1),
        isLocal: @escaping IsLocal = { _, _ in false },
        lookUp: @escaping LookUp
    ) {
        self.maximumThreads = maximumThreads
        self.maximumQueued = maximumQueued
        self.slowAfter = slowAfter
        self.isLocal = isLocal
        self.lookUp = lookUp
    }

    var metrics: (lookups: Int, peakThreads: Int, threads: Int) {
        state.withLock { ($0.begun, $0.peakThreads, $0.threads) }
    }

    /// `completion` runs on a thread of the resolver, or on the caller's if too many questions are queued.
    package func resolve(
        _ host: String,
        port: UInt16,
        family: AddressFamily,
        completion: @escaping NameLookup.Completion
    ) -> LookupID {
        enum Outcome: Sendable { case waits, startThread, refused }
        let question = Question(host: host, family: family)
        let asker = Asker(port: port, completion: completion)
        let (id, outcome) = state.withLock { state -> (UInt64, Outcome) in
            state.lastID += 1
            let id = state.lastID
            if state.lookups[question] != nil {
                state.lookups[question]?.askers[id] = asker
                return (id, .waits)
            }
            guard state.queued < maximumQueued else { return (id, .refused) }
            state.lookups[question] = Lookup(askers: [id: asker])
            state.enqueue(question, .fresh)
            guard state.threads < maximumThreads + Self.localThreads else { return (id, .waits) }
            state.threads += 1
            state.peakThreads = max(state.peakThreads, state.threads)
            return (id, .startThread)
        }
        switch outcome {
        case .waits: break
        case .startThread: start()
        case .refused:
            let name = host.withoutCredentials.escaped()
            let message =
                "resolving \(name): too many lookups: \(maximumQueued) are already waiting, so no name server was asked"
            completion(.failure(TransportError(.nameResolutionFailed, message)))
        }
        return LookupID(question: question, id: id)
    }

    package func cancel(_ lookupID: LookupID) {
        let question = lookupID.question
        state.withLock { state in
            state.lookups[question]?.askers[lookupID.id] = nil
            guard let lookup = state.lookups[question], lookup.askers.isEmpty, let place = lookup.place else { return }
            state.queues[lookup.kind.rawValue].remove(place)
            state.lookups[question] = nil
        }
    }

    func obstacle(of lookupID: LookupID) -> String? {
        state.withLock { state in
            guard let lookup = state.lookups[lookupID.question], !lookup.hasBegun else { return nil }
            // A fresh question may need no name server. Most names do.
            guard !state.hasThread(for: lookup.kind == .fresh ? .remote : lookup.kind, of: maximumThreads) else {
                return "no name server was asked, because the thread for the look-up had not run yet"
            }
            let slow = state.running[Kind.slow.rawValue]
            let isShort = state.running[Kind.remote.rawValue] + slow < maximumThreads
            // The others have threads in reserve, which a slow name does not get.
            let (count, kind) = isShort ? (slow, "slow ") : (state.running[Kind.remote.rawValue] + slow, "")
            let lookups = count == 1 ? "one other \(kind)look-up" : "\(count) other \(kind)look-ups"
            return "no name server was asked, because \(lookups) occupied the threads of the resolver"
        }
    }

    private func start() {
        let code = startThread(named: "trunkline-dns") { self.run() }
        guard code != 0 else { return }
        // Existing threads serve the queues. If there are none, every request fails.
        let stranded = state.withLock { state -> [Asker] in
            state.threads -= 1
            guard state.threads == 0 else { return [] }
            defer {
                state.lookups = [:]
                state.queues = Kind.allCases.map { _ in Queue() }
            }
            return state.lookups.values.flatMap { $0.askers.values }
        }
        let error = transportError(code, "starting a thread to resolve names")
        for asker in stranded { asker.tell(.failure(error)) }
    }

    private func run() {
        while let (question, kind) = takeQuestion() {
            if kind == .fresh, !admit(question, isLocal: isLocal(question.host, question.family)) { continue }
            let begin = monotonicNow()
            let answer = lookUp(question.host, question.family)
            let isSlow = monotonicNow().since(begin) >= slowAfter
            for asker in finish(question, isSlow) { asker.tell(answer) }
        }
    }

    private func takeQuestion() -> (Question, Kind)? {
        state.withLock { state in
            for kind in [Kind.remote, .slow] where state.hasThread(for: kind, of: maximumThreads) {
                guard let question = state.queues[kind.rawValue].popFirst() else { continue }
                state.begin(question, kind)
                return (question, kind)
            }
            guard let question = state.queues[Kind.fresh.rawValue].popFirst() else {
                state.threads -= 1
                return nil
            }
            state.lookups[question]?.place = nil
            return (question, .fresh)
        }
    }

    private func admit(_ question: Question, isLocal: Bool) -> Bool {
        state.withLock { state in
            guard state.lookups[question]?.askers.isEmpty == false else {
                state.lookups[question] = nil  // cancelled meanwhile
                return false
            }
            let kind: Kind = isLocal ? .local : state.slow.contains(question.host) ? .slow : .remote
            guard state.hasThread(for: kind, of: maximumThreads) else {
                state.enqueue(question, kind)
                return false
            }
            state.begin(question, kind)
            return true
        }
    }

    private func finish(_ question: Question, _ isSlow: Bool) -> [Asker] {
        state.withLock { state in
            state.end(question)
            if !isSlow {
                state.slow.remove(question.host)
            } else {
                if state.slow.count >= Self.maximumSlow { state.slow = [] }
                state.slow.insert(question.host)
            }
            let askers = state.lookups.removeValue(forKey: question)?.askers ?? [:]
            return askers.sorted { $0.key < $1.key }.map(\.value)
        }
    }
}
