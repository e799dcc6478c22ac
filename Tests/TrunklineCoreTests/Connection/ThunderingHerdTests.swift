import Testing

@testable import TrunklineCore

/// A server that accepts 2,000 connections per second restarts, and its 100,000 clients come back.
///
/// A debug build uses a tenth of both numbers, which gives the same curves. `TRUNKLINE_STRESS_CLIENTS` sets another
/// number of clients.
@Suite(.timeLimit(.minutes(5)))
struct ThunderingHerdTests {}

extension ThunderingHerdTests {
    /// The default policy without jitter.
    struct Unjittered: ReconnectPolicy {
        func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision {
            .retry(after: Backoff().ceiling(round: failure.round))
        }
    }

    private func herd(outage: Int, isOrderly: Bool = false) -> Herd {
        #if DEBUG
            let standard = 10_000
        #else
            let standard = 100_000
        #endif
        var herd = Herd()
        herd.count = TestEnvironment.stressClients ?? standard
        // The server needs fifty seconds to accept all clients; its backlog holds two seconds of work.
        herd.capacity = max(1, herd.count / 50)
        herd.backlog = herd.capacity * 2
        herd.outage = .seconds(outage)
        herd.isOrderly = isOrderly
        return herd
    }

    /// The documented bounds: in the busiest second after the restart, at most `times` as many connections arrive as
    /// the server can accept, and all clients are back within `back` seconds after the crash. The server alone needs
    /// the outage and 50 s.
    ///
    /// The longer the outage, the further apart the clients are. Measured with 100,000 clients: 10.3 times and 75 s
    /// after an outage of 5 s, 3.3 times and 130 s after an outage of a minute.
    @Test(
        arguments: [(outage: 5, times: 12, back: 90), (outage: 60, times: 4, back: 150)],
        [false, true]
    )
    func theDefaultPolicySpreadsTheReconnectsOfManyClients(
        _ bound: (outage: Int, times: Int, back: Int),
        isOrderly: Bool
    ) throws {
        let herd = herd(outage: bound.outage, isOrderly: isOrderly)
        let curve = herd.run(Backoff(), seed: 1)
        print(
            curve.text(
                title: "\(herd.count) clients, \(herd.capacity)/s accepted, away for \(bound.outage) s: full jitter",
                perMark: herd.capacity / 2
            )
        )
        #expect(curve.peak(from: bound.outage) <= bound.times * herd.capacity)
        #expect(try #require(curve.allBack) <= .seconds(bound.back))
        #expect(curve.accepted.reduce(0, +) == herd.count)
        // The server is busy all the time while many clients are waiting.
        #expect(curve.accepted[(bound.outage + 1)...(bound.outage + 30)].allSatisfy { $0 >= herd.capacity * 9 / 10 })
    }

    @Test func withoutJitterTheClientsReturnInRepeatedBursts() {
        let herd = herd(outage: 5)
        let curve = herd.run(Unjittered(), seed: 1, limit: 120)
        print(
            curve.text(
                title: "\(herd.count) clients, \(herd.capacity)/s accepted, outage of 5 s: exponential without jitter",
                perMark: herd.capacity / 2
            )
        )
        #expect(curve.peak(from: 5) >= 45 * herd.capacity)
        #expect(curve.allBack == nil)
        // Two minutes have passed; fifty seconds would have been enough. Most clients are still not back.
        #expect(curve.accepted.reduce(0, +) < herd.count / 2)
    }

    @Test func theSameSeedGivesTheSameArrivals() {
        var herd = Herd()
        (herd.count, herd.capacity, herd.backlog) = (1_000, 20, 40)
        #expect(herd.run(Backoff(), seed: 7).arrivals == herd.run(Backoff(), seed: 7).arrivals)
        #expect(herd.run(Backoff(), seed: 7).arrivals != herd.run(Backoff(), seed: 8).arrivals)
    }
}
