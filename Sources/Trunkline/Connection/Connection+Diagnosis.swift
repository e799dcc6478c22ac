/// Telling why attempts fail and links end.
extension Connection {
    /// How often links came and went.
    public struct Statistics: Sendable, Hashable {
        /// Attempts to connect that were begun.
        public var attempts = 0
        /// Attempts that failed.
        public var failedAttempts = 0
        /// Links that became ready.
        public var links = 0
        /// Links that became ready after another one.
        package var reconnects: Int { max(0, links - 1) }
        /// Pings sent.
        public var pings = 0
        /// Pings, pongs, cancellations and frames that take leave that the codec made and could not encode: a mistake of
        /// the codec. They are not sent; a ping costs the link, which nothing would watch over.
        public var unencodableFrames = 0
        /// Why the last of these could not be encoded.
        public var lastEncodingFailure: FrameError?
        /// How often each cause ended an attempt or a link.
        public var disconnects: [DisconnectCause: Int] = [:]

        init() {}

        /// The share of all ends that `cause` has, from 0 to 1.
        package func share(of cause: DisconnectCause) -> Double {
            let all = disconnects.values.reduce(0, +)
            return all == 0 ? 0 : Double(disconnects[cause] ?? 0) / Double(all)
        }
    }

    /// A report of every attempt that fails and every link that ends from now on, until the connection is closed. Each
    /// access is a stream of its own; a reader that falls more than 64 reports behind misses the oldest.
    public nonisolated var disconnects: AsyncStream<DisconnectReport> {
        stream(startingWith: { _ in nil }, { $1(&$0.disconnectReaders) })
    }

    /// Counts the end of an attempt or a link, and tells of it.
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
        if phase != .ready && phase != .draining { statistics.failedAttempts += 1 }
        statistics.disconnects[cause, default: 0] += 1
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
            networkProbe.add(report)  // behind the others
        } else {
            disconnectReaders.yield(report)
        }
    }

    /// We end the link that is ready.
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

    /// We end the attempt that is under way.
    func reportEndOfAttempt() {
        if let handshaking {
            reportEndByUs(.handshaking, handshaking)
        } else if let attempt {
            let phase = attempt.phase ?? .connecting
            let server = (attempt.attempt.endpoint, attempt.attempt.id, attempt.attempt.number)
            report(phase, .closedLocally, nil, server, pathsOfAttempt)
        }
    }

    /// The path of the attempt under way when it began, and now.
    var pathsOfAttempt: (before: NetworkPath, after: NetworkPath) {
        if let handshaking { return pathsAtEnd(of: links[handshaking]) }
        guard let attempt else { return (.unknown, .unknown) }
        guard let first = attempt.firstPath else { return (attempt.initialPath, path(to: attempt.attempt.endpoint)) }
        return (first.path, path(to: first.address))
    }

    func publish(_ reports: [DisconnectReport]) {
        networkProbe = nil
        for report in reports { disconnectReaders.yield(report) }
    }
}
