/// Counts, durations and current values of a client.
///
/// Counts and durations begin with the creation of the client. Requests of handshakes are not counted as requests,
/// but their frames and bytes are. The memory does not grow with the number of requests. See <doc:Monitoring>.
public struct ClientMetrics: Sendable, Hashable {
    // MARK: Requests

    /// The number of requests and one-way messages that were accepted. Each of them ends once, as one of
    /// ``responses``, ``written`` or ``failed``; until then it is one of ``pending``.
    ///
    public var requests = 0
    /// The number of responses that reached their request, error responses included.
    public var responses = 0
    /// The number of one-way messages whose last byte the kernel accepted.
    public var written = 0
    /// The number of accepted requests and messages that ended without a response and were not written as one-way
    /// messages: by an error, a timeout or a cancellation.
    public var failed = 0
    /// The number of accepted requests and messages that ended with an error, by its code and fate.
    ///
    /// Their sum is ``failed`` plus the number of error responses and malformed responses. A reply that is too long
    /// only with its last part counts as a response, although its caller receives `overloaded`.
    public var failures: [Failure: Int] = [:]
    /// The number of error responses that gave a reason, by its ``ServerReason/label``. At most 65 names: once 64
    /// have been counted, `others` stands for every further one.
    public var rejections: [String: Int] = [:]
    /// The number of requests and messages that were not accepted, by the code of the error:
    ///
    /// - `closed`: the client was closed.
    /// - `overloaded`: too many requests were waiting.
    /// - `unavailable`: there was no link, and the call did not wait for one.
    /// - `connectionLost`: the link of the push to be answered was closed or draining, or the link on which
    ///   `subscribe` had to repeat its request. The latter does not fail the call.
    ///
    /// Calls that failed before they reached the event loop are not counted: their timeout was not positive, their
    /// task was cancelled, their typed request cannot be encoded, the message may not be posted, or `tryEnqueue`
    /// had no room.
    public var refusals: [ClientError.Code: Int] = [:]
    /// The time from the call to the end of each accepted request and message, with retries and waiting, by the
    /// endpoint of the link on which it ended. The endpoint of the present link is always among them.
    ///
    /// `nil` stands for no link: the call ended while it waited for one, for its turn, or before a retry. Once
    /// about 64 endpoints have been counted, it also stands for every further endpoint.
    public var durationsByEndpoint: [Endpoint?: CallDurations] = [:]
    /// The time from the call to the end of each accepted request and message, whatever its outcome, with retries
    /// and waiting: the sum of ``durationsByEndpoint``.
    public var callDurations: LatencyHistogram {
        durationsByEndpoint.values.reduce(into: LatencyHistogram()) { $0.merge($1.all) }
    }
    /// The time from the call to the end of each accepted request and message that ended with an error, by the code
    /// of the error. These durations are among ``callDurations``, and their number is the sum of ``failures``.
    ///
    /// Codes that did not occur are missing.
    public var failureDurations: [ClientError.Code: LatencyHistogram] {
        durationsByEndpoint.values.reduce(into: CallDurations()) { $0.merge($1) }.failures
    }
    /// The time from the call to the end of each accepted request and message, with retries and waiting, by the
    /// name of the request (``NamingCodec``), such as a JSON-RPC method. A request without a name is counted by its
    /// type number, as `type 0x410`. Empty unless ``ClientOptions/Requests/measuresByName`` is set; then these are
    /// the calls of ``callDurations``. At most 65 names: once 64 have been counted, `others` stands for every
    /// further one.
    public var durationsByName: [String: CallDurations] = [:]
    /// How long each try of a request waited for a link or its turn: from the call, or from the end of the back-off
    /// before a retry. A try that was put on a link at once counts as zero. A try that ended while it waited is
    /// counted too, unless it ended in its back-off. Measured when the try ends.
    public var queueDurations = LatencyHistogram()
    /// How long each try of a request was on its link: from the moment it was put there to its response, to its
    /// last byte for a one-way message, or to its failure. A try that was on no link is not counted.
    public var tryDurations = LatencyHistogram()
    /// The number of times that a failed request was scheduled to be sent again. See
    /// ``RetryPolicy/idempotent(tries:backoff:)``.
    public var retries = 0
    /// The number of times that a request in a datagram was sent again because it was not answered in time. See
    /// ``ClientOptions/Requests-swift.struct/repeatAfter``.
    public var repetitions = 0
    /// The number of times that a failed request was not sent again because the ``RetryBudget`` was exhausted.
    public var retriesRefused = 0
    /// The number of messages that `enqueue` or `tryEnqueue` accepted and that failed later, with any fate.
    ///
    /// A message fails if its deadline passes, if its link is lost while it is being written, if the codec cannot
    /// encode it, or if it is not yet written when the client is closed or gives up connecting. Calls that threw
    /// are not counted. To find out why the codec cannot encode a message, send it with
    /// ``Client/post(_:timeout:options:)``, which throws the reason.
    public var failedMessages = 0

    // MARK: Current values

    /// The number of requests and one-way messages that have not ended: those on a link, and those of ``waiting``.
    public var pending = 0
    /// The requests and messages that are on no link, by what they wait for.
    public var waiting = Waiting()
    /// The memory of the requests that wait for a link, for their turn or before a retry, in bytes: an estimate,
    /// which `options.requests.maximumWaitingBytes` limits.
    public var waitingBytes = 0
    /// The number of abandoned requests.
    ///
    /// The server may still work on these requests: it has not answered them, and neither their quarantine nor
    /// their link has ended. They count against `options.requests.maximumInFlight`.
    public var abandoned = 0
    /// The number of serial numbers in use on all links, by requests in flight and by abandoned requests.
    public var heldSerials = 0
    /// The number of requests that count against `options.requests.maximumInFlight`: those on a link, and the
    /// abandoned ones.
    public var inFlight: Int {
        max(0, pending.subtractingReportingOverflow(waiting.total).partialValue).addingClamped(abandoned)
    }
    /// The limits of these values.
    public var limits = Limits()
    /// The queues in which events wait for their receivers, by the name of the type of the observer.
    /// `ClientLogging` stands for the log, and `recorder` for the dumps of a flight recorder. Observers of one type
    /// share an element, and those that the event loop calls have none.
    public var eventQueues: [String: EventQueueMetrics] = [:]

    // MARK: Received frames

    /// The number of parts that reached their request. The last frame of a reply counts as a response, not as a
    /// part.
    public var parts = 0
    /// The number of responses to abandoned requests. Parts of such replies are not counted.
    public var lateResponses = 0
    /// The number of responses, and parts of responses, that no request was waiting for, or that came twice.
    public var unknownResponses = 0
    /// The number of responses to typed requests that their callers could not decode. The requests count as
    /// answered. Those of a cluster are in ``Cluster/Metrics/undecodableResponses``.
    public var undecodableResponses = 0
    /// The number of pushes received.
    public var pushes = 0
    /// The number of pushes that entered the buffer of a stream, including those that their readers have not taken
    /// yet, and those that were dropped later (with `.dropOldest`). A push that several streams buffered counts
    /// several times.
    public var pushesDelivered = 0
    /// The number of pushes that streams dropped because their buffer was full. A push that several streams dropped
    /// counts several times.
    public var pushesDropped: Int { pushesDroppedByStream.values.reduce(0) { $0.addingClamped($1) } }
    /// The same number, by what the streams receive: `all`, `type 0x1f`, `where` (selected by a closure) and `key`.
    /// At most 65 names: once 64 have been counted, `others` stands for every further one.
    public var pushesDroppedByStream: [String: Int] = [:]
    /// The requests of the server.
    public var serving = Serving()
    /// The number of received frames that a client does not handle: requests of the server with the serial of one
    /// that is not answered yet, cancellations of requests that are not served, and both in protocols that match
    /// responses in order.
    public var unexpectedFrames = 0

    // MARK: Other parts of the client

    /// The metrics of attempts and links.
    public var connection = ConnectionMetrics()

    /// Creates metrics in which every count is zero.
    public init() {}

    /// Adds the metrics of `other`, which are those of another client. The result describes both clients together.
    ///
    /// Counts and current values are added, durations are merged. The few values that cannot be added:
    ///
    /// - `connection.state`, `link` and `tcp` are those of this client, or those of `other` if only `other` has a
    ///   ready link.
    /// - `connection.turnDurations` counts each event loop once, even if both clients run on it.
    /// - `connection.lastEncodingFailure` is that of `other` if there is one.
    ///
    /// Metrics that were created by ``init()`` add nothing.
    public mutating func merge(_ other: ClientMetrics) {
        requests.addClamped(other.requests)
        responses.addClamped(other.responses)
        written.addClamped(other.written)
        failed.addClamped(other.failed)
        failures.addClamped(other.failures)
        rejections.addNamed(other.rejections)
        refusals.addClamped(other.refusals)
        for (endpoint, durations) in other.durationsByEndpoint {
            durationsByEndpoint[endpoint, default: CallDurations()].merge(durations)
        }
        durationsByName.addNamed(other.durationsByName) { $0 = ($0 ?? CallDurations()).merging($1) }
        queueDurations.merge(other.queueDurations)
        tryDurations.merge(other.tryDurations)
        retries.addClamped(other.retries)
        retriesRefused.addClamped(other.retriesRefused)
        repetitions.addClamped(other.repetitions)
        failedMessages.addClamped(other.failedMessages)
        pending.addClamped(other.pending)
        waiting.merge(other.waiting)
        waitingBytes.addClamped(other.waitingBytes)
        abandoned.addClamped(other.abandoned)
        heldSerials.addClamped(other.heldSerials)
        limits.merge(other.limits)
        for (name, queue) in other.eventQueues { eventQueues[name, default: EventQueueMetrics()].merge(queue) }
        parts.addClamped(other.parts)
        lateResponses.addClamped(other.lateResponses)
        unknownResponses.addClamped(other.unknownResponses)
        undecodableResponses.addClamped(other.undecodableResponses)
        pushes.addClamped(other.pushes)
        pushesDelivered.addClamped(other.pushesDelivered)
        pushesDroppedByStream.addNamed(other.pushesDroppedByStream)
        serving.merge(other.serving)
        unexpectedFrames.addClamped(other.unexpectedFrames)
        connection.merge(other.connection)
    }

    /// For the metrics of a closed client. Counts and durations remain.
    package mutating func removeCurrentValues() {
        (pending, waiting, waitingBytes) = (0, Waiting(), 0)
        (abandoned, heldSerials, limits) = (0, 0, Limits())
        serving.removeCurrentValues()
        for name in eventQueues.keys { eventQueues[name]?.removeCurrentValues() }
        connection.removeCurrentValues()
    }

    /// The code and the fate of an error.
    public struct Failure: Sendable, Hashable, CustomStringConvertible {
        /// The kind of failure.
        public let code: ClientError.Code
        /// What became of the request.
        public let fate: ClientError.Fate

        /// Creates a failure, to look up its count.
        public init(_ code: ClientError.Code, _ fate: ClientError.Fate) {
            self.code = code
            self.fate = fate
        }

        /// The code and the fate, such as `timedOut (fate unknown)`.
        public var description: String { "\(code) (\(fate.text))" }
    }

    /// The durations of calls that ended on the links to one endpoint, or of calls with one name.
    public struct CallDurations: Sendable, Hashable {
        /// The durations of all these calls.
        public var all = LatencyHistogram()
        /// The durations of those that ended with an error, by its code.
        public var failures: [ClientError.Code: LatencyHistogram] = [:]

        /// Creates empty durations.
        public init() {}

        /// Adds the durations of `other`.
        public mutating func merge(_ other: CallDurations) {
            all.merge(other.all)
            for (code, durations) in other.failures {
                failures[code, default: LatencyHistogram()].merge(durations)
            }
        }

        fileprivate consuming func merging(_ other: CallDurations) -> CallDurations {
            merge(other)
            return self
        }

        /// The durations of the calls that succeeded.
        public var successes: LatencyHistogram {
            failures.values.reduce(into: all) { $0.remove($1) }
        }
    }

    /// The requests that the server sent to the client: ``Client/serve(maximumConcurrent:maximumWaiting:_:)``.
    ///
    /// Each of them ends once, as one of ``answered``, ``refused``, ``cancelled`` or ``dropped``.
    public struct Serving: Sendable, Hashable {
        /// The number of requests received from the server.
        public var received = 0
        /// The number of requests whose answer the kernel has accepted, or whose handler returned `nil`.
        public var answered = 0
        /// The number of requests that were refused, and whose refusal the kernel has accepted (``ServingCodec``),
        /// by the reason.
        public var refused: [ServingRefusal: Int] = [:]
        /// The number of requests that the server cancelled before they were answered.
        public var cancelled = 0
        /// The number of requests that the server has no answer to: their link ended before it was written, the
        /// codec has no refusal for them, or 24,576 refusals were waiting to be written.
        public var dropped = 0
        /// The number of handlers that run, and of answers that are being written.
        public var running = 0
        /// The number of requests that wait for a handler.
        public var waiting = 0
        /// The limit of ``running``; 0 if the client does not serve.
        public var maximumConcurrent = 0
        /// The limit of ``waiting``; 0 if the client does not serve.
        public var maximumWaiting = 0

        init() {}

        init(_ calls: ServerCalls) {
            let counts = calls.counts
            (received, answered, refused) = (counts.received, counts.answered, counts.refused)
            (cancelled, dropped) = (counts.cancelled, counts.dropped)
            (running, waiting) = (calls.occupiedCount, calls.waitingCount)
            maximumConcurrent = calls.limits?.maximumConcurrent ?? 0
            maximumWaiting = calls.limits?.maximumWaiting ?? 0
        }

        fileprivate mutating func merge(_ other: Serving) {
            received.addClamped(other.received)
            answered.addClamped(other.answered)
            refused.addClamped(other.refused)
            cancelled.addClamped(other.cancelled)
            dropped.addClamped(other.dropped)
            running.addClamped(other.running)
            waiting.addClamped(other.waiting)
            maximumConcurrent.addClamped(other.maximumConcurrent)
            maximumWaiting.addClamped(other.maximumWaiting)
        }

        fileprivate mutating func removeCurrentValues() {
            (running, waiting, maximumConcurrent, maximumWaiting) = (0, 0, 0, 0)
        }
    }

    /// The limits that current values are compared with. Those of several clients are added.
    ///
    /// Alert on the share: `Double(metrics.heldSerials) / Double(metrics.limits.serials)`.
    public struct Limits: Sendable, Hashable {
        /// The number of serial numbers of all links together, for ``ClientMetrics/heldSerials``. 0
        /// without a link, and if responses are matched in order.
        public var serials = 0
        /// `options.requests.maximumInFlight`, for ``ClientMetrics/inFlight``.
        public var inFlight = 0
        /// `options.requests.maximumWaiting`, for the sum of ``ClientMetrics/waiting``.
        public var waiting = 0
        /// `options.requests.maximumWaitingBytes`, for ``ClientMetrics/waitingBytes``.
        public var waitingBytes = 0
        /// `options.outbound.highWatermark`, for ``ConnectionMetrics/bytesToWrite``.
        public var bytesToWrite = 0

        init() {}

        fileprivate mutating func merge(_ other: Limits) {
            serials.addClamped(other.serials)
            inFlight.addClamped(other.inFlight)
            waiting.addClamped(other.waiting)
            waitingBytes.addClamped(other.waitingBytes)
            bytesToWrite.addClamped(other.bytesToWrite)
        }
    }

    /// A queue between the client and a receiver of its events.
    public struct EventQueueMetrics: Sendable, Hashable {
        /// The number of events or log records that wait. An event that names several requests counts as many.
        public var waiting = 0
        /// How many the queue takes (``EventDelivery/queued(capacity:)``).
        public var capacity = 0
        /// The number of events and log records that were not received, because the queue was full.
        public var missed = 0

        package init() {}

        package mutating func merge(_ other: EventQueueMetrics) {
            waiting.addClamped(other.waiting)
            capacity.addClamped(other.capacity)
            missed.addClamped(other.missed)
        }

        fileprivate mutating func removeCurrentValues() { (waiting, capacity) = (0, 0) }
    }

    /// Numbers of requests that are on no link.
    public struct Waiting: Sendable, Hashable {
        /// The number of requests that wait for a link.
        public var forLink = 0
        /// The number of requests that wait although there is a link: because of `outbound.highWatermark` or
        /// `requests.maximumInFlight`, because all serial numbers are in use, or because nothing may follow the
        /// present request (``PipeliningCodec``).
        public var forTurn = 0
        /// The number of requests that failed and wait before they are sent again.
        public var forBackOff = 0

        /// The number of all waiting requests.
        public var total: Int { forLink.addingClamped(forTurn).addingClamped(forBackOff) }

        init() {}

        fileprivate mutating func merge(_ other: Waiting) {
            forLink.addClamped(other.forLink)
            forTurn.addClamped(other.forTurn)
            forBackOff.addClamped(other.forBackOff)
        }
    }
}
