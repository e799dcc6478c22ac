/// The metrics of a client, and what must be true of them.
extension Dispatcher {
    var metrics: ClientMetrics {
        var metrics = ClientMetrics()
        let counters = ledger.counters
        (metrics.requests, metrics.responses) = (counters.requests, counters.responses)
        (metrics.written, metrics.failed) = (counters.written, counters.failed)
        (metrics.retries, metrics.retriesRefused) = (counters.retries, counters.retriesRefused)
        metrics.repetitions = counters.repetitions
        (metrics.parts, metrics.lateResponses) = (counters.parts, counters.lateResponses)
        (metrics.unknownResponses, metrics.undecodableResponses) = (
            counters.unknownResponses, counters.undecodableResponses
        )
        (metrics.pushes, metrics.unexpectedFrames) = (counters.pushes, counters.unexpectedFrames)
        metrics.connection = driver.metrics
        (metrics.abandoned, metrics.heldSerials, metrics.limits.serials) = driver.links.held
        metrics.limits.inFlight = max(1, options.requests.maximumInFlight)
        metrics.limits.waiting = max(0, options.requests.maximumWaiting)
        metrics.limits.waitingBytes = max(0, options.requests.maximumWaitingBytes)
        metrics.limits.bytesToWrite = max(1, options.outbound.highWatermark)
        metrics.eventQueues = ledger.observation?.queueMetrics ?? [:]
        (metrics.failures, metrics.refusals) = (ledger.failures, ledger.refusals)
        metrics.rejections = ledger.rejections
        metrics.durationsByEndpoint = ledger.callDurations.byEndpoint
        metrics.durationsByName = ledger.durationsByName
        metrics.tryDurations = ledger.tryDurations.histogram
        metrics.queueDurations = ledger.queueDurations
        let atOnce = metrics.tryDurations.count - counters.triesQueued
        metrics.queueDurations.record(nanoseconds: 0, times: atOnce)
        metrics.pushesDelivered = streams.channels.deliveredCount
        metrics.pushesDroppedByStream = streams.channels.dropped
        metrics.serving = ClientMetrics.Serving(serving.calls)
        metrics.pending = requests.count
        let waiting = requests.queue.waitingCount
        (metrics.waiting.forLink, metrics.waiting.forTurn) = isReady ? (0, waiting) : (waiting, 0)
        (metrics.waiting.forBackOff, metrics.waitingBytes) = (requests.queue.delayedCount, requests.queue.usedBytes)
        metrics.failedMessages = messageRoom.failures
        return metrics
    }

    func audit() -> [String] {
        let metrics = metrics
        let onLinks = driver.links.requestCount
        let ended = metrics.responses + metrics.written + metrics.failed
        let answered = metrics.failures.filter { $0.key.fate == .answered }.values.reduce(0, +)
        let unanswered = metrics.failures.values.reduce(0, +) - answered
        var contradictions: [String] = []
        func expect(_ name: String, _ value: Int, _ other: String, _ expected: Int) {
            if value != expected { contradictions.append("\(name) is \(value), but \(other) is \(expected)") }
        }
        expect("requests", metrics.requests, "responses + written + failed + pending", ended + metrics.pending)
        let places = onLinks + metrics.waiting.total
        expect("pending", metrics.pending, "the number of requests on links and waiting", places)
        expect("callDurations.count", metrics.callDurations.count, "responses + written + failed", ended)
        let tries = ended + metrics.retries
        let onLink = metrics.tryDurations.count + ledger.counters.triesWithoutLink
        expect("tryDurations.count + tries without a link", onLink, "responses + written + failed + retries", tries)
        let queued = metrics.queueDurations.count + ledger.counters.triesInBackOff
        expect("queueDurations.count + tries in back-off", queued, "responses + written + failed + retries", tries)
        if metrics.pending == 0,
            metrics.queueDurations.sum + metrics.tryDurations.sum > metrics.callDurations.sum
        {
            contradictions.append("queueDurations and tryDurations are longer than callDurations")
        }
        expect("the number of failures that were not answered", unanswered, "failed", metrics.failed)
        let timed = metrics.failureDurations.values.reduce(0) { $0 + $1.count }
        expect("the count of failureDurations", timed, "the sum of failures", answered + unanswered)
        let served = metrics.serving
        let endedCalls = served.answered + served.refused.values.reduce(0, +) + served.cancelled + served.dropped
        let allCalls = endedCalls + serving.calls.openCount
        expect("serving.received", served.received, "answered + refused + cancelled + dropped + open", allCalls)
        if answered > metrics.responses {
            contradictions.append("\(answered) failures were answered, but there are \(metrics.responses) responses")
        }
        return contradictions + driver.audit()
    }
}
