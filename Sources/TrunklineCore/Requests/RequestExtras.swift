/// What only some requests need: unusual options, the state of retries, and the parts of a reply.
///
/// Unchecked `Sendable`: its creator passes it on, and then only the event loop of its client accesses it.
final class RequestExtras: @unchecked Sendable {
    var call: TrackedCall?
    var repetition: Repetition?
    private var reassembly: Reassembly?

    init(_ call: TrackedCall? = nil) { self.call = call }

    var firstPart: Instant? { reassembly?.firstPart }

    func add(_ part: Frame, at now: Instant, in budget: ReassemblyBudget) -> String? {
        let reassembly = reassembly ?? Reassembly(in: budget)
        self.reassembly = reassembly
        return reassembly.add(part, at: now)
    }

    struct Repetition {
        var lookAt: Instant
        /// How long the client waits for an answer to the latest copy, which was sent at `sentAt`, or before.
        var wait: Duration
        var sentAt = Instant.distantPast
    }

    func begin(_ next: TrackedCall) { (call, reassembly) = (next, nil) }

    func completed(_ outcome: Outcome) -> Outcome {
        let amended = call.map { call in outcome.mapError { call.amended($0) } } ?? outcome
        return reassembly?.completed(amended) ?? amended
    }
}

/// A request with unusual options, from one try to the next.
struct TrackedCall: Sendable {
    let options: ResolvedOptions
    /// The frame to send again, because links release it when it is written; without content if that is not allowed.
    let frame: Frame
    /// Counted from 1.
    private(set) var tryNumber = 1
    private(set) var earlierFate: ClientError.Fate
    /// The end of the back-off before the next try; `nil` during a try.
    private(set) var delayedUntil: Instant?
    /// The end of the back-off before this try; `nil` for the first one.
    private(set) var rested: Instant?
    private(set) var failedTries: [Timeline.Try] = []

    private static let maximumKept = 8

    init(_ options: ResolvedOptions, _ frame: Frame) {
        self.options = options
        self.frame = if case .idempotent = options.retry { frame } else { Frame(.request) }
        earlierFate = options.earlierFate
    }

    func failed(_ error: ClientError) -> FailedTry {
        // A call that does not wait for a link is not retried because there is none.
        let isHelpless = error.code == .unavailable && !options.waitsForReady
        return FailedTry(
            error.mayBeRetried && !isHelpless ? .link : .nothing,
            wasWritten: error.fate != .notSent,
            options.retry,
            number: tryNumber,
            latestEnd: options.latestEnd
        )
    }

    /// The next try after the present one has `failed`, in back-off until it begins.
    func next(after error: ClientError, _ failed: Timeline.Try, at begin: Instant) -> TrackedCall {
        var next = self
        next.tryNumber += 1
        next.earlierFate = error.fate.after(earlierFate)
        next.delayedUntil = begin
        next.rested = begin
        if next.failedTries.count == Self.maximumKept { next.failedTries.removeFirst() }
        next.failedTries.append(failed)
        return next
    }

    var mayBeRepeated: Bool { if case .idempotent(let tries, _) = options.retry { tries > 1 } else { false } }

    var awake: TrackedCall {
        var awake = self
        awake.delayedUntil = nil
        return awake
    }

    /// As the caller must see it: with the fate and the number of all tries.
    func amended(_ error: ClientError) -> ClientError {
        let error = error.after(earlierFate)
        guard tryNumber > 1 else { return error }
        return error.changed { $0.tries = tryNumber }
    }
}
