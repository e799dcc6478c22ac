import TrunklineCore
import TrunklineDiagnostics

/// Decides as recorded, and where nothing was recorded as another policy.
final class RecordedDelays: ReconnectPolicy {
    private let waits: Lock<ArraySlice<ReplayScript.Wait>>
    private let laterAttempts: [Duration]
    private let end: Duration?
    private let time: ReplayTime
    private let policy: any ReconnectPolicy

    /// How far from its recorded time a wait may begin.
    private static let tolerance = Duration.seconds(1)

    init(_ script: ReplayScript, _ time: ReplayTime, then policy: any ReconnectPolicy) {
        waits = Lock(script.waits[...])
        laterAttempts = script.laterAttempts
        end = script.hasPlannedChange ? script.length : nil
        (self.time, self.policy) = (time, policy)
    }

    func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision {
        let decision = policy.decision(for: failure, random: random)
        if case .giveUp = decision { return decision }
        let now = time.elapsed
        if let wait = takeWait(near: now) {
            // Usually it begins just when it did, because its cause did.
            let isExact = max(wait.time - now, now - wait.time) < .microseconds(1)
            return .retry(after: isExact ? wait.delay : time.delay(until: wait.time + wait.delay, since: wait.time))
        }
        // A planned change waits between its attempts, too.
        if let next = laterAttempts.first(where: { $0 > now }) { return .retry(after: next - now) }
        if let end, case .retry(let delay) = decision, now < end {
            return .retry(after: max(delay, end - now + .seconds(1)))
        }
        // The replay has other options, and is at another point.
        let wait = waits.withLock { $0.first { $0.cause == failure.cause } }
        return wait.map { .retry(after: $0.delay) } ?? decision
    }

    private func takeWait(near now: Duration) -> ReplayScript.Wait? {
        waits.withLock { waits in
            func distance(_ index: Int) -> Duration { max(waits[index].time - now, now - waits[index].time) }
            guard var nearest = waits.indices.first else { return nil }
            // In the order of time: from the nearest on, they are farther and farther away.
            while nearest + 1 < waits.endIndex, distance(nearest + 1) <= distance(nearest) { nearest += 1 }
            guard distance(nearest) <= Self.tolerance else { return nil }
            let wait = waits[nearest]
            waits = waits[(nearest + 1)...]
            return wait
        }
    }
}

/// The handshakes of a replay: each runs, or ends as recorded.
final class ReplayHandshakes: Sendable {
    private let rest: Lock<[Endpoint: ArraySlice<ReplayScript.Handshake>]>
    private let hasFailures: Bool
    private let time: ReplayTime

    init(_ script: ReplayScript, _ time: ReplayTime) {
        let handshakes = script.attempts.mapValues { attempts in
            attempts.compactMap { if case .established(_, let handshake) = $0 { handshake } else { nil } }[...]
        }
        hasFailures = handshakes.values.joined().contains { if case .fails = $0 { true } else { false } }
        rest = Lock(handshakes)
        self.time = time
    }

    func closure(
        over perform: (@Sendable (Handshaker) async throws -> Void)?
    ) -> (@Sendable (Handshaker) async throws -> Void)? {
        guard perform != nil || hasFailures else { return nil }
        return { handshaker in
            switch self.next(at: handshaker.endpoint) {
            case .runs?: try await perform?(handshaker)
            case .isBridged(let begin, let end)?: try await self.wait(until: end, since: begin)
            case .fails(.closedLocally, _, _, _, _)?: try await self.wait(until: .seconds(86_400), since: .zero)
            case .fails(let cause, let isPermanent, let retryAfter, let begin, let end)?:
                try await self.wait(until: end, since: begin)
                throw cause.handshakeError(isPermanent: isPermanent, retryAfter: retryAfter)
            case nil: break  // nothing was recorded of it
            }
        }
    }

    private func next(at endpoint: Endpoint) -> ReplayScript.Handshake? {
        rest.withLock { $0[endpoint]?.popFirst() }
    }

    private func wait(until end: Duration, since begin: Duration) async throws {
        let delay = time.delay(until: end, since: begin)
        if delay > .zero { try await time.sleep(until: time.elapsed + delay) }
    }
}

extension DisconnectCause {
    fileprivate func handshakeError(isPermanent: Bool, retryAfter: Duration?) -> any Error {
        switch self {
        case .handshakeRefused:
            HandshakeRefusal("refused in the recording", isPermanent: isPermanent, retryAfter: retryAfter)
        case .protocolViolation, .limitExceeded: FrameError(.malformed, "malformed in the recording")
        default: transportError(isPermanent: isPermanent)
        }
    }
}
