/// The receiver of a request's outcome, and what only some requests need besides. It is removed from the table once and
/// resumed once.
package struct Waiter: Sendable {
    enum Receiver: Sendable {
        /// A caller in `send` or `post`.
        case caller(Continuation<Outcome>)
        /// A request of a `send(all:)`, or a message of a `post(all:)`.
        case batch(Batch, index: Int)
        /// A handle returned by `start`.
        case handle(RequestHandle)
        /// A stream returned by `stream`.
        case stream(ReplyChannel)
        /// No caller: a message that `enqueue` accepted. It takes `cost` bytes of the room.
        case enqueued(MessageRoom, cost: Int)
        /// A caller in `enqueue` until its message is accepted; no caller afterwards.
        case enqueuing(EnqueuedMessage)
    }

    let receiver: Receiver
    /// `nil` for a request with the usual options, unless its reply comes in parts.
    private(set) var extras: RequestExtras?

    init(_ receiver: Receiver) { self.receiver = receiver }

    /// Creates the waiter of a request with `options`, whose frame is `frame`.
    @inline(__always)
    init(_ receiver: consuming Receiver, _ options: borrowing ResolvedOptions, _ frame: borrowing Frame) {
        self.receiver = receiver
        if options.areTracked { extras = RequestExtras(TrackedCall(copy options, copy frame)) }
    }

    /// The call, if its options are not the usual ones.
    var tracked: TrackedCall? { extras?.call }

    /// The handle of the request, if it was made with `start`.
    var handle: RequestHandle? { if case .handle(let handle) = receiver { handle } else { nil } }

    /// Whether the request is a message that `enqueue` has accepted or will accept.
    var isEnqueued: Bool {
        switch receiver {
        case .enqueued, .enqueuing: true
        case .caller, .batch, .handle, .stream: false
        }
    }

    /// The batch of the request, if it was made with others.
    var batch: Batch? { if case .batch(let batch, _) = receiver { batch } else { nil } }

    /// Whether a cancellation means that the deadline of the call has passed, which its caller watches.
    var hasExpired: Bool { tracked?.options.movableDeadline?.isExpired == true }

    /// What the link must report about the request before its end.
    var reports: QueuedRequest.Progress {
        switch receiver {
        case .handle: .admissionAndWrite
        case .enqueuing: .admission
        case .caller, .batch, .stream, .enqueued: .none
        }
    }

    // MARK: The reply

    /// The result of taking a part of the reply.
    enum Reception {
        case taken
        /// The part was taken, but reading must be suspended until the reader has caught up.
        case full(ReplyChannel)
        /// The part goes to this reader, which waits for it.
        case serves(Continuation<ReplyChannel.Element>, ReplyChannel.Element)
        /// There is no room for the part, for this reason. The request must be cancelled.
        case exceeds(String)
    }

    /// Takes a part of the reply that arrived at `now`: passes it to its reader, or joins it with the others if there is
    /// room for it in `budget`.
    mutating func take(_ part: Frame, at now: Instant, in budget: ReassemblyBudget) -> Reception {
        if case .stream(let channel) = receiver { return channel.offer(part, at: now) }
        let extras = extras ?? RequestExtras()
        self.extras = extras
        return extras.add(part, at: now, in: budget).map { .exceeds($0) } ?? .taken
    }

    /// When the first part of the reply arrived; `nil` if none has.
    var firstPart: Instant? {
        if case .stream(let channel) = receiver { channel.firstPart } else { extras?.firstPart }
    }

    /// Whether the request may be sent again: no part of its reply has reached a reader.
    var isRepeatable: Bool { if case .stream(let channel) = receiver { channel.firstPart == nil } else { true } }

    /// Returns when to check again whether the request has expired, or `.distantFuture` for never; `nil` if it has
    /// expired at `now`. Waiters with a single deadline, which has passed, return `nil`.
    func nextLook(at now: Instant) -> Instant? {
        if case .stream(let channel) = receiver { channel.nextLook(at: now) } else { nil }
    }

    // MARK: The end

    /// The most common case is handled inline, because this runs once per request.
    @inline(__always)
    func resume(_ outcome: consuming Outcome) {
        if extras == nil { receiver.resume(consume outcome) } else { complete(consume outcome) }
    }

    @inline(never)
    private func complete(_ outcome: Outcome) { receiver.resume(extras?.completed(outcome) ?? outcome) }
}

extension Waiter.Receiver {
    @inline(__always)
    fileprivate func resume(_ outcome: consuming Outcome) {
        if case .caller(let continuation) = self {
            continuation.resume(returning: consume outcome)
        } else {
            tell(consume outcome)
        }
    }

    @inline(never)
    private func tell(_ outcome: consuming Outcome) {
        switch self {
        case .caller(let continuation): continuation.resume(returning: outcome)
        case .batch(let batch, let index): batch.complete(index, outcome)
        case .handle(let request): request.complete(outcome)
        case .stream(let channel): channel.finish(outcome)
        case .enqueued(let room, let cost): room.release(cost, outcome)
        case .enqueuing(let message): message.complete(outcome)
        }
    }
}

/// The results of one `send(all:)` or `post(all:)`, collected until the last one has arrived. All share one
/// continuation.
///
/// Unchecked `Sendable`: after its creation it is accessed only on the event loop of its client.
package final class Batch: @unchecked Sendable {
    let options: ResolvedOptions
    /// The requests, if errors name them.
    private let named: [Request]?
    private let continuation: Continuation<[Outcome]>
    /// Exclusive without a check: only `complete` changes it, and calls nothing else meanwhile. With the check, a request of a
    /// batch took 3,160 instructions instead of 2,990.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    @safe private var results: Results

    /// One value, so that completing a request is one access to this object.
    private struct Results {
        /// In the order in which the requests ended.
        var outcomes: [Outcome] = []
        /// For each request, the index of its outcome in `outcomes`; -1 while it has none.
        var places: [Int]
        /// Whether the first failure is returned alone, and nothing after it.
        private let stopsAtFailure: Bool
        private(set) var isOver = false

        init(count: Int, stopsAtFailure: Bool) {
            self.stopsAtFailure = stopsAtFailure
            outcomes.reserveCapacity(count)
            places = Array(repeating: -1, count: count)
        }

        /// Sets the outcome of a request unless it has one. Returns all outcomes, in the order of the requests, if it
        /// was the last.
        mutating func complete(_ index: Int, _ outcome: consuming Outcome) -> [Outcome]? {
            guard places[index] < 0, !isOver else { return nil }
            if stopsAtFailure, case .failure = outcome {
                isOver = true
                return [outcome]
            }
            places[index] = outcomes.count
            outcomes.append(outcome)
            guard outcomes.count == places.count else { return nil }
            let outcomes = exchange(&self.outcomes, with: [])
            return places.elementsEqual(places.indices) ? outcomes : places.map { outcomes[$0] }
        }
    }

    /// - Parameters:
    ///   - named: The requests, if errors are to name them.
    ///   - stopsAtFailure: Whether the first failure resumes the caller, with that alone.
    init(
        count: Int,
        _ options: ResolvedOptions,
        _ continuation: Continuation<[Outcome]>,
        naming named: [Request]? = nil,
        stopsAtFailure: Bool = false
    ) {
        self.options = options
        self.named = named
        self.continuation = continuation
        results = Results(count: count, stopsAtFailure: stopsAtFailure)
    }

    /// Whether the caller was resumed because of a failure.
    var hasStopped: Bool { results.isOver }

    @inline(never)
    private func naming(_ index: Int, _ outcome: Outcome) -> Outcome {
        guard let named else { return outcome }
        return outcome.mapError { $0.with(named[index], number: index + 1, of: named.count) }
    }

    func complete(_ index: Int, _ outcome: consuming Outcome) {
        if named != nil { outcome = naming(index, outcome) }
        if let all = results.complete(index, outcome) { continuation.resume(returning: all) }
    }
}

/// The result of a request.
package typealias Outcome = Result<Response, ClientError>

extension Outcome {
    /// Creates the outcome of a request from its response.
    @inline(__always)
    init(of frame: consuming Frame) {
        if let malformedReason = frame.malformedReason {
            self = .failure(.malformed(frame, malformedReason))
        } else if frame.isErrorResponse {
            self = .failure(.errorResponse(frame))
        } else {
            self = .success(Response(frame))
        }
    }
}

extension ClientError {
    static func malformed(_ frame: Frame, _ malformedReason: FrameError.Code) -> ClientError {
        let cause = FrameError.malformed(frame, malformedReason)
        return ClientError(
            cause.exceedsLimit ? .overloaded : .protocolViolation,
            .answered,
            cause.exceedsLimit ? "the response exceeds a limit of the codec" : "the response is malformed",
            response: Response(frame),
            cause: cause
        )
    }

    static func errorResponse(_ frame: Frame) -> ClientError {
        let status = frame.status == 0 ? "" : "status \(frame.status)"
        let words = [status, frame.reason?.description ?? ""].filter { !$0.isEmpty }.joined(separator: ": ")
        if frame.isFateUnknown {
            let message = "the server has ended the request and leaves open whether it was processed"
            let reason = words.isEmpty ? "" : ": \(words)"
            return ClientError(.interrupted, .unknown, message + reason, response: Response(frame))
        }
        let message = words.isEmpty ? "rejected by the server" : "the server answered with \(words)"
        return ClientError(.rejected, .answered, message, response: Response(frame))
    }
}

extension FrameError {
    /// What is wrong with a malformed frame. A frame that is too long exceeds a limit of the codec, which knew its end.
    static func malformed(_ frame: Frame, _ malformedReason: Code) -> FrameError {
        let reason = String.reason(malformedReason, of: frame)
        return malformedReason == .illegalLength
            ? FrameError(exceedingLimit: reason) : FrameError(malformedReason, reason)
    }
}

extension String {
    /// Describes what is wrong with a malformed frame.
    fileprivate static func reason(_ malformedReason: FrameError.Code, of frame: Frame) -> String {
        if malformedReason == .missingBody { return "the response has no body\(frame.malformedFinding)" }
        let reason =
            switch malformedReason {
            case .illegalLength where frame.malformedFinding.isEmpty: "is longer than the codec's maximumFrameSize"
            case .illegalLength: "is too long"
            case .unknownType where !frame.malformedFinding.isEmpty: "is of an unknown kind"
            case .unknownType: "has type 0x\(String(frame.type, radix: 16)), which is unknown"
            default: "is invalid"
            }
        return "the response \(reason)\(frame.malformedFinding); its body has \(frame.body)"
    }
}
