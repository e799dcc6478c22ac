import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// The rules of `RetryPolicy`, for every code and policy.
@Suite struct TrackedCallTests {
    private static let codes: [ClientError.Code] = [
        .cancelled, .timedOut, .connectionLost, .unavailable, .closed, .rejected, .protocolViolation, .invalidRequest,
        .invalidResponse, .invalidArgument, .overloaded, .tlsFailed, .notCached, .sessionLost,
    ]
    private let now = Instant(nanoseconds: 1_000)

    private func call(_ retry: RetryPolicy, waitsForReady: Bool = true, deadline: Instant? = nil) -> TrackedCall {
        let marks: ResolvedOptions.Marks = waitsForReady ? [] : .mayNotWait
        let options = ResolvedOptions(retry: retry, accepted: now, marks: marks, deadline: deadline)
        return TrackedCall(options, Frame(.request))
    }

    private var failed: Timeline.Try {
        Timeline.Try(
            now,
            started: now,
            rested: nil,
            withoutLink: 0,
            admitted: nil,
            nil,
            firstPart: nil,
            ended: now,
            ClientMetrics.Failure(.connectionLost, .unknown)
        )
    }

    private func next(
        _ call: TrackedCall,
        _ code: ClientError.Code,
        _ fate: ClientError.Fate = .unknown,
        seed: UInt64 = 1
    )
        -> TrackedCall?
    {
        let error = ClientError(code, fate, "failed")
        var rules = RetryRules(nil, seed: seed)
        guard case .retry(let begin) = rules.decision(after: call.failed(error), at: now, requests: 1) else {
            return nil
        }
        return call.next(after: error, failed, at: begin)
    }

    @Test(arguments: [RetryPolicy.never, .ifUnsent, .idempotent(tries: 1), .idempotent(tries: .min)], codes)
    func onlyIdempotentRequestsAreRetried(_ retry: RetryPolicy, _ code: ClientError.Code) {
        #expect(next(call(retry), code) == nil)
        #expect(next(call(retry), code, .notSent) == nil)
    }

    @Test(arguments: codes)
    func onlyErrorsThatAnotherLinkMayFixAreRetried(_ code: ClientError.Code) {
        let isRetried = [.connectionLost, .protocolViolation, .unavailable].contains(code)
        #expect((next(call(.idempotent()), code) != nil) == isRetried)
    }

    @Test func aCallThatDoesNotWaitIsNotRetriedWithoutALink() {
        #expect(next(call(.idempotent(), waitsForReady: false), .unavailable, .notSent) == nil)
        #expect(next(call(.idempotent(), waitsForReady: false), .connectionLost) != nil)
    }

    @Test func retriesAreLimited() {
        var call = call(.idempotent(tries: 4))
        for tryNumber in 2...4 {
            guard let next = next(call.awake, .connectionLost) else {
                Issue.record("not retried: tryNumber \(tryNumber)")
                return
            }
            #expect(next.tryNumber == tryNumber)
            call = next
        }
        #expect(next(call.awake, .connectionLost) == nil)
    }

    /// Regression: the wait was drawn from zero up, whatever the minimum.
    @Test func theBackoffKeepsItsMinimum() {
        let backoff = Backoff(minimum: .seconds(5), base: .milliseconds(10), cap: .seconds(5))
        let next = next(call(.idempotent(backoff: backoff)), .connectionLost)
        #expect(next?.delayedUntil == now.advanced(by: .seconds(5)))
    }

    @Test func theBackoffGrowsUpToItsCapAndEndsBeforeTheDeadline() {
        let backoff = Backoff(base: .milliseconds(10), cap: .milliseconds(40))
        for seed in 0..<200 as Range<UInt64> {
            var call = call(.idempotent(tries: .max, backoff: backoff))
            for longest in [10, 20, 40, 40, 40] as [Int64] {
                guard let next = next(call, .connectionLost, seed: seed), let until = next.delayedUntil else {
                    Issue.record("not retried")
                    return
                }
                #expect((0...longest * 1_000_000).contains(until.nanoseconds - now.nanoseconds))
                call = next.awake
            }
            let deadline = now.advanced(by: .milliseconds(5))
            let hurried = self.call(.idempotent(backoff: backoff), deadline: deadline)
            let next = next(hurried, .unavailable, .notSent, seed: seed)
            if let until = next?.delayedUntil { #expect(until < deadline) }
        }
    }

    @Test func aRequestThatWasWrittenOnceNeverHasFateNotSent() {
        let unsent = ClientError(.cancelled, .notSent, "cancelled")
        #expect(call(.idempotent()).amended(unsent).fate == .notSent)
        let neverWritten = next(call(.idempotent()), .unavailable, .notSent)
        #expect(neverWritten?.amended(unsent).fate == .notSent)
        let written = next(call(.idempotent()), .connectionLost, .unknown)
        #expect(written?.amended(unsent).fate == .unknown)
        #expect(written.flatMap { next($0.awake, .unavailable, .notSent) }?.amended(unsent).fate == .unknown)
        let rejected = ClientError(.rejected, .answered, "no", response: Response(status: 7))
        #expect(written?.amended(rejected).fate == .answered)
        #expect(written?.amended(rejected).response?.status == 7)
    }
}
