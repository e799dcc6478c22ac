/// What only some requests need: options other than the usual ones, the state of retries, and the parts of a reply.
///
/// Unchecked `Sendable`: its creator passes it on, and from then on it is accessed only on the event loop of its client.
final class RequestExtras: @unchecked Sendable {
    /// The call, if its options are not the usual ones.
    var call: TrackedCall?
    /// When the request is sent again on a link of datagrams, if it is not answered; `nil` if it is not to be.
    var repetition: Repetition?
    /// The parts of the reply that have arrived.
    private var reassembly: Reassembly?

    init(_ call: TrackedCall? = nil) { self.call = call }

    /// When the first part of the reply arrived; `nil` if none has.
    var firstPart: Instant? { reassembly?.firstPart }

    /// Adds a part of the reply. Returns an error message if there is no room for it.
    func add(_ part: Frame, at now: Instant, in budget: ReassemblyBudget) -> String? {
        let reassembly = reassembly ?? Reassembly(in: budget)
        self.reassembly = reassembly
        return reassembly.add(part, at: now)
    }

    /// The next repetition of a request.
    struct Repetition {
        /// When the client looks at the request.
        var lookAt: Instant
        /// How long it waits for an answer to the latest copy, which was sent at `sentAt`, or before.
        var wait: Duration
        var sentAt = Instant.distantPast
    }

    /// Begins the next try, without the parts of the reply that have arrived.
    func begin(_ next: TrackedCall) { (call, reassembly) = (next, nil) }

    /// Returns the outcome of the request as its caller must see it.
    func completed(_ outcome: Outcome) -> Outcome {
        let amended = call.map { call in outcome.mapError { call.amended($0) } } ?? outcome
        return reassembly?.completed(amended) ?? amended
    }
}

/// A request with options other than the usual ones, from one try to the next.
struct TrackedCall: Sendable {
    let options: ResolvedOptions
    /// The frame to send again; without its content if that is not allowed. Links release a frame as soon as it is
    /// written.
    let frame: Frame
    /// The number of the current try, counted from 1.
    private(set) var tryNumber = 1
    /// The fate of the earlier tries.
    private(set) var earlierFate: ClientError.Fate
    /// The end of the back-off before the next try; `nil` during a try.
    private(set) var delayedUntil: Instant?
    /// The end of the back-off before this try; `nil` for the first one.
    private(set) var rested: Instant?
    /// The latest earlier tries.
    private(set) var failedTries: [Timeline.Try] = []

    /// The maximum number of earlier tries that are kept.
    private static let maximumKept = 8

    init(_ options: ResolvedOptions, _ frame: Frame) {
        self.options = options
        self.frame = if case .idempotent = options.retry { frame } else { Frame(.request) }
        earlierFate = options.earlierFate
    }

    /// What matters of a failed try for the next one.
    func failed(_ error: ClientError) -> FailedTry {
        // A call that does not wait for a link is not retried because there is none.
        let isHelpless = error.code == .unavailable && !options.waitsForReady
        return FailedTry(
            error.mayBeRetried && !isHelpless ? .link : .nothing,
            wasWritten: error.fate == .unknown,
            options.retry,
            number: tryNumber,
            latestEnd: options.latestEnd
        )
    }

    /// Returns the next try, in back-off until it begins.
    ///
    /// - Parameter failed: The present try.
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

    /// Whether the request may be performed more than once.
    var mayBeRepeated: Bool { if case .idempotent(let tries, _) = options.retry { tries > 1 } else { false } }

    /// The same call, no longer in back-off.
    var awake: TrackedCall {
        var awake = self
        awake.delayedUntil = nil
        return awake
    }

    /// Returns the error as the caller must see it, with the fate and the number of all tries.
    func amended(_ error: ClientError) -> ClientError {
        let error = error.after(earlierFate)
        guard tryNumber > 1 else { return error }
        return error.changed { $0.tries = tryNumber }
    }
}
