/// Reporting why attempts fail and links end.
extension Connection {
    /// Counts and durations of attempts, links and their ends since the connection was created.
    public struct Metrics: Sendable, Hashable {
        /// The number of attempts that began.
        public var attempts = 0
        /// The number of attempts that failed, or that the client ended before their link was ready.
        public var failedAttempts = 0
        /// The number of links that became ready.
        public var links = 0
        /// The number of links that became ready after the first one.
        package var reconnects: Int { max(0, links - 1) }
        /// The number of pings sent.
        public var pings = 0
        /// The number of frames that the codec created itself (pings, pongs, cancellations, the closing frame) and
        /// could not encode. This is a bug in the codec. Such frames are not sent. If a ping cannot be encoded, the
        /// link is closed, because the client could not detect that it is dead.
        public var unencodableFrames = 0
        /// The error of the latest frame in ``unencodableFrames``; `nil` if there was none.
        public var lastEncodingFailure: FrameError?
        /// The number of attempts and links that ended, by cause.
        public var disconnects: [DisconnectCause: Int] = [:]

        /// The time from the beginning of each successful attempt until its link was established: resolving, connecting
        /// and TLS, without waiting until an earlier link is closed (``LinkOverlap``).
        public var connectDurations = LatencyHistogram()
        /// The time of each handshake that made its link ready, including the restoring of subscriptions.
        public var handshakeDurations = LatencyHistogram()
        /// The number of bytes read; over TLS, after decryption.
        public var bytesReceived = 0
        /// The number of bytes written; over TLS, before encryption.
        public var bytesSent = 0
        /// The number of frames received, heartbeats and handshakes included.
        public var framesReceived = 0
        /// The number of frames whose last byte was written, also heartbeats, cancel frames and those of handshakes.
        public var framesSent = 0

        init() {}

        /// The share of `cause` in all ends, from 0 to 1.
        package func share(of cause: DisconnectCause) -> Double {
            let all = disconnects.values.reduce(0, +)
            return all == 0 ? 0 : Double(disconnects[cause] ?? 0) / Double(all)
        }
    }

    /// A report of every attempt that fails and every link that ends from now on, until the connection is closed.
    ///
    /// Each access creates a separate stream. A reader that is more than 64 reports behind misses the oldest ones. With
    /// `options.diagnosis.probe`, reports wait for the probe.
    public nonisolated var disconnects: AsyncStream<DisconnectReport> {
        stream(startingWith: { _ in nil }, { $1(&$0.disconnectReaders) })
    }

    /// Counts the end of an attempt or a link, and reports it.
    func report(
        _ phase: DisconnectReport.Phase,
        _ cause: DisconnectCause,
        _ error: (any Error)?,
        _ server: (endpoint: Endpoint, session: UInt64, attempt: Int),
        _ paths: (before: NetworkPath, after: NetworkPath),
        lifetime: Duration = .zero,
        requestsLost: Int = 0,
        bytesUnsent: Int = 0
    ) {
        if phase != .ready && phase != .draining { metrics.failedAttempts += 1 }
        metrics.disconnects[cause, default: 0] += 1
        let report = DisconnectReport(
            endpoint: server.endpoint,
            phase: phase,
            endedBy: (error as? TransportError)?.party ?? cause.party,
            cause: cause,
            error: error,
            session: server.session,
            attempt: server.attempt,
            lifetime: lifetime,
            requestsLost: requestsLost,
            bytesUnsent: bytesUnsent,
            pathBefore: paths.before,
            pathAfter: paths.after
        )
        if cause.isAbnormal, let probe = options.diagnosis.probe {
            let running = networkProbe ?? NetworkProbe(self, probe, timeout: options.diagnosis.probeTimeout)
            networkProbe = running
            running.add(report)
        } else if let networkProbe {
            networkProbe.add(report)  // after those that wait
        } else {
            publish(report)
        }
    }

    private func publish(_ report: DisconnectReport) {
        observation?.add(.links, .linkEnded(report))
        disconnectReaders.yield(report)
    }

    /// Reports that this side ends the ready link.
    func reportEndOfReady() {
        guard let ready else { return }
        reportEndByUs(publishedState == .draining ? .draining : .ready, ready)
    }

    private func reportEndByUs(_ phase: DisconnectReport.Phase, _ index: Int) {
        report(
            phase,
            .closedLocally,
            nil,
            (links[index].endpoint, links[index].session, links[index].attempt),
            pathsAtEnd(of: links[index]),
            lifetime: links[index].readySince.map { loop.now.since($0) } ?? .zero,
            bytesUnsent: links[index].machine.outbound.unwrittenCount
        )
    }

    /// Reports that this side ends the attempt under way.
    func reportEndOfAttempt() {
        if let handshaking {
            reportEndByUs(.handshaking, handshaking)
        } else if let attempt {
            let phase = attempt.phase ?? .connecting
            let server = (attempt.attempt.endpoint, attempt.attempt.id, attempt.attempt.number)
            report(phase, .closedLocally, nil, server, pathsOfAttempt)
        }
    }

    /// The path of the attempt under way when it began, and its path now.
    var pathsOfAttempt: (before: NetworkPath, after: NetworkPath) {
        if let handshaking { return pathsAtEnd(of: links[handshaking]) }
        guard let attempt else { return (.unknown, .unknown) }
        guard let first = attempt.firstPath else { return (attempt.initialPath, path(to: attempt.attempt.endpoint)) }
        return (first.path, path(to: first.address))
    }

    func publish(_ reports: [DisconnectReport]) {
        networkProbe = nil
        for report in reports { publish(report) }
    }
}
