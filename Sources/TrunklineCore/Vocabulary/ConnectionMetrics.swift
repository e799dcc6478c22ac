/// Counts and durations of attempts, links and their ends since the connection was created.
public struct ConnectionMetrics: Sendable, Hashable {
    /// The number of attempts that began.
    public var attempts = 0
    /// The number of attempts that failed, or that the client ended before their link was ready.
    public var failedAttempts = 0
    /// The number of links that became ready.
    public var links = 0
    var reconnects: Int { max(0, links - 1) }
    /// The number of pings sent.
    public var pings = 0
    /// The number of frames that the codec created itself (pings, pongs, cancellations, the closing frame) and
    /// could not encode. Such frames are not sent. For a ping this means that the protocol allows none at that time
    /// (``HeartbeatCodec``). For all others it is a bug in the codec.
    public var unencodableFrames = 0
    /// The error of the latest frame in ``unencodableFrames``; `nil` if there was none.
    public var lastEncodingFailure: FrameError?
    /// The number of attempts of ``failedAttempts``, by cause. An attempt that the client ended has the cause
    /// `closedLocally`.
    public var attemptFailures: [DisconnectCause: Int] = [:]
    /// The number of times that an address of a name failed, or did not answer, while another one did, by address.
    /// At most 65 names: once 64 have been counted, `others` stands for every further one.
    public var addressFailures: [String: Int] = [:]
    /// The number of links that ended after they had been ready, by cause.
    ///
    /// An end that the client caused is among them: `closedLocally` for `close()`, `suspend()` and planned changes.
    public var losses: [DisconnectCause: Int] = [:]
    /// The number of links that the server ended with a reason of its own, those of failed attempts included, by
    /// the ``ServerReason/label``. At most 65 names: once 64 have been counted, `others` stands for every further
    /// one.
    public var linkEndReasons: [String: Int] = [:]
    /// The number of attempts and links that ended, by cause: the sum of ``attemptFailures`` and ``losses``.
    public var disconnects: [DisconnectCause: Int] {
        attemptFailures.merging(losses, uniquingKeysWith: { $0.addingClamped($1) })
    }

    /// The time from the beginning of each successful attempt until its link was established: resolving, connecting
    /// and TLS, without waiting until an earlier link is closed (``LinkOverlap``).
    public var connectDurations = LatencyHistogram()
    /// The time of each handshake that made its link ready, including the restoring of subscriptions.
    public var handshakeDurations = LatencyHistogram()
    /// The round-trip times of pings, on all links. A ping that waited behind other frames is not among them.
    public var pingDurations = LatencyHistogram()
    /// The number of datagrams that were dropped because they were not complete frames, or not valid responses to
    /// the requests with their serials (``ResponseCheckingCodec``).
    public var droppedDatagrams = 0
    /// The number of bytes read; over TLS, after decryption.
    public var bytesReceived = 0
    /// The number of bytes written; over TLS, before encryption.
    public var bytesSent = 0
    /// The number of frames received, heartbeats and handshakes included.
    public var framesReceived = 0
    /// The number of frames whose last byte was written, also heartbeats, cancel frames and those of handshakes.
    public var framesSent = 0

    /// The values read with the metrics. In a box, because the stored counts have none.
    private var present: Present?

    private final class Present: Sendable, Hashable {
        let values: PresentValues
        init(_ values: PresentValues) { self.values = values }
        static func == (a: Present, b: Present) -> Bool { a.values == b.values }
        func hash(into hasher: inout Hasher) { hasher.combine(values) }
    }

    /// The state of the connection.
    public var state: ConnectionState { present?.values.state ?? .idle }

    /// Several if the metrics of several connections were merged.
    package var stateCounts: [String: Int] { present?.values.stateCounts ?? [ConnectionState.idle.name: 1] }

    /// The present link, which takes requests: its endpoint, address and session number. `nil` without a ready
    /// link.
    public var link: Timeline.Link? { present?.values.link }

    /// The number of bytes that wait to be written, on all links: an estimate for frames that are not encoded yet,
    /// and over TLS also encrypted bytes that the socket has not taken. Bytes in the socket are not counted: see
    /// ``TCPInformation/unsentBytes``.
    public var bytesToWrite: Int {
        present?.values.bytesToWrite ?? 0
    }

    /// The state of the TCP connection of the present link. `nil` without a ready link, over a Unix domain socket,
    /// in a simulated network, and on systems other than Linux.
    public var tcp: TCPInformation? { present?.values.tcp }

    /// The interval of the heartbeats of the present link. `nil` without a ready link, and if the link has no
    /// heartbeats.
    public var heartbeatInterval: Duration? { present?.values.heartbeatInterval }

    /// The certificates that expire first: of those of the server on the latest TLS link, and that of this client,
    /// as the latest attempt has read it from its file. Empty without TLS.
    public var certificates: [CertificateExpiry] { present?.values.certificates ?? [] }

    /// How long the turns of the event loop took, without waiting.
    ///
    /// In each turn the loop serves everything that is ready: calls, sockets and timers. Whatever becomes ready in
    /// a turn waits for the next one, so the longest turns are the delay that the loop itself adds. Turns of more
    /// than some milliseconds have a cause in the program: code on ``Client/executor`` that blocks, a slow observer
    /// on the event loop, or too few processors.
    ///
    /// Turns of less than 65 µs all count with their mean. The turns are those of the whole loop, since it was
    /// started. Clients that share a loop return the same durations. Empty in a simulated network, where code takes
    /// no time.
    public var turnDurations: LatencyHistogram {
        present?.values.turnDurations.values.reduce(into: LatencyHistogram()) { $0.merge($1) } ?? LatencyHistogram()
    }

    /// How long the event loop did not run what was due, each time that this was 250 ms or longer: the process was
    /// stopped, had no processor, or code on the loop blocked it (``LoopDelay``).
    ///
    /// As for ``turnDurations``, these are the delays of the whole loop. Their ``LatencyHistogram/sum`` is the time
    /// in which this process was not able to work.
    public var loopDelays: LatencyHistogram {
        present?.values.delays.values.reduce(into: LatencyHistogram()) { $0.merge($1) } ?? LatencyHistogram()
    }

    init() {}

    mutating func add(_ values: PresentValues) { present = Present(values) }

    mutating func merge(_ other: ConnectionMetrics) {
        attempts.addClamped(other.attempts)
        failedAttempts.addClamped(other.failedAttempts)
        links.addClamped(other.links)
        pings.addClamped(other.pings)
        unencodableFrames.addClamped(other.unencodableFrames)
        lastEncodingFailure = other.lastEncodingFailure ?? lastEncodingFailure
        attemptFailures.addClamped(other.attemptFailures)
        losses.addClamped(other.losses)
        addressFailures.addNamed(other.addressFailures)
        linkEndReasons.addNamed(other.linkEndReasons)
        connectDurations.merge(other.connectDurations)
        handshakeDurations.merge(other.handshakeDurations)
        pingDurations.merge(other.pingDurations)
        droppedDatagrams.addClamped(other.droppedDatagrams)
        bytesReceived.addClamped(other.bytesReceived)
        bytesSent.addClamped(other.bytesSent)
        framesReceived.addClamped(other.framesReceived)
        framesSent.addClamped(other.framesSent)
        guard let added = other.present else { return }
        guard var values = present?.values else { return present = added }
        values.merge(added.values)
        present = Present(values)
    }

    /// Counts and durations remain, those of turns included.
    mutating func removeCurrentValues() {
        guard let values = present?.values else { return }
        present = Present(PresentValues(state: nil, turnDurations: values.turnDurations, delays: values.delays))
    }

    /// From 0 to 1.
    func share(of cause: DisconnectCause) -> Double {
        let disconnects = disconnects
        let all = disconnects.values.reduce(0) { $0.addingClamped($1) }
        return all == 0 ? 0 : Double(disconnects[cause] ?? 0) / Double(all)
    }
}

extension ConnectionMetrics {
    struct PresentValues: Sendable, Hashable {
        /// `nil` if the connection is closed and forgotten.
        private(set) var state: ConnectionState?
        private(set) var stateCounts: [String: Int] = [:]
        /// By loop, so that connections that share a loop count it once.
        private(set) var turnDurations: [ObjectIdentifier: LatencyHistogram]
        private(set) var delays: [ObjectIdentifier: LatencyHistogram]
        var link: Timeline.Link?
        var tcp: TCPInformation?
        var heartbeatInterval: Duration?
        var certificates: [CertificateExpiry] = []
        var bytesToWrite = 0

        init(
            state: ConnectionState?,
            turnDurations: [ObjectIdentifier: LatencyHistogram],
            delays: [ObjectIdentifier: LatencyHistogram] = [:]
        ) {
            (self.state, self.turnDurations, self.delays) = (state, turnDurations, delays)
            if let state { stateCounts[state.name] = 1 }
        }

        mutating func merge(_ other: PresentValues) {
            if state == nil || link == nil && other.link != nil {
                (state, link, tcp) = (other.state, other.link, other.tcp)
                heartbeatInterval = other.heartbeatInterval
            }
            for certificate in other.certificates {
                guard let place = certificates.firstIndex(where: { $0.owner == certificate.owner }) else {
                    certificates.append(certificate)
                    continue
                }
                if certificate.notAfter < certificates[place].notAfter { certificates[place] = certificate }
            }
            stateCounts.addClamped(other.stateCounts)
            // Both were read from the same loop, so the one with more turns was read later, and contains the other.
            turnDurations.merge(other.turnDurations) { $1.count > $0.count ? $1 : $0 }
            delays.merge(other.delays) { $1.count > $0.count ? $1 : $0 }
            bytesToWrite.addClamped(other.bytesToWrite)
        }
    }
}
