import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// What keeps requests from going out on a ready link, and what the endpoint's judge makes of it.
@Suite struct LinkShortageTests {}

extension LinkShortageTests {
    private struct NoWait: ReconnectPolicy {
        func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision { .retry(after: .zero) }
    }

    /// A link with `count` written requests, of which the first `abandoned` were cancelled.
    private func link(_ matching: ResponseMatching, _ count: Int, abandoned: Int) -> TestedLink {
        var link = TestedLink(matching)
        for number in 1...count { link.send(RequestID(UInt64(number)), "abc") }
        link.write()
        for number in 1...max(1, abandoned) where abandoned > 0 { _ = link.cancel(RequestID(UInt64(number))) }
        return link
    }

    private func find(_ link: TestedLink, _ use: LinkUse) -> String {
        var machine = link.machine
        let (obstacle, shortage) = LinkShortage.find(on: &machine, use, at: at(1))
        return "\(obstacle): \(shortage.text(machine, use))"
    }

    @Test func halfOfAllPlacesAreHeldByAbandonedRequests() {
        let use = LinkUse(inFlight: 4, maximumInFlight: 4)
        #expect(
            find(link(.serial(50...99), 4, abandoned: 2), use)
                == "exhausted: 2 abandoned requests hold places of requests.maximumInFlight (4)"
        )
        #expect(find(link(.serial(50...99), 4, abandoned: 1), use).hasPrefix("unansweredUntil") == false)
    }

    @Test func halfOfAllSerialsAreHeldByAbandonedRequests() {
        let use = LinkUse(inFlight: 1, maximumInFlight: 64)
        #expect(
            find(link(.serial(50...53), 4, abandoned: 2), use).hasPrefix("exhausted: 2 of 4 serial numbers are held by")
        )
        #expect(find(link(.serial(50...53), 4, abandoned: 1), use).hasPrefix("other: 1 of 4 serial numbers is held by"))
        #expect(find(link(.serial(50...99), 4, abandoned: 2), use) == "other: no serial number is free")
        // What waits is held back by the socket, not by serials.
        var full = use
        full.isBelowWatermark = false
        #expect(find(link(.serial(50...53), 4, abandoned: 2), full).hasPrefix("other"))
    }

    @Test func aRequestThatMustGoOutAloneWaitsForAbandonedOnes() {
        let use = LinkUse(inFlight: 0, maximumInFlight: 64, awaitsAlone: true)
        #expect(
            find(link(.serial(50...99), 1, abandoned: 1), use).hasSuffix(
                "a request that must go out alone waits for 1 abandoned request, which was not answered in time"
            )
        )
        // Others are in flight, for which it waits anyway.
        #expect(find(link(.serial(50...99), 2, abandoned: 1), use) == "other: no serial number is free")
    }

    @Test func theJudgeLeavesALinkWhoseSerialsAreHeldAfterAWhile() {
        var judge = EndpointJudge(
            nil,
            EndpointSilence(maximumTimeouts: nil, patience: .seconds(1)),
            LinkReplacement(stableAfter: .seconds(60), seed: 1)
        )
        var machine = link(.serial(50...53), 4, abandoned: 4).machine
        let use = LinkUse(inFlight: 0, maximumInFlight: 64)
        #expect(judge.judgeShortage(on: &machine, use, isWaiting: true, at: at(1), NoWait()) == nil)
        let verdict = judge.judgeShortage(on: &machine, use, isWaiting: true, at: at(1.25), NoWait())
        #expect(verdict?.departure == .exhausted)
        #expect(verdict?.explanation.hasPrefix("4 of 4 serial numbers are held by") == true)
        // The shortage has ended with the link.
        #expect(!judge.replacement.isShort)
    }

    @Test func theJudgeLeavesAServerThatLeavesResponsesOut() {
        var judge = EndpointJudge(
            nil,
            EndpointSilence(maximumTimeouts: nil, patience: .seconds(1)),
            LinkReplacement(stableAfter: .seconds(60), seed: 1)
        )
        var link = TestedLink(.inOrder)
        for round in 1...3 as ClosedRange<UInt64> {
            link.send(RequestID(round), "abc")
            link.write()
            _ = link.cancel(RequestID(round), isTimeout: true)
            let verdict = judge.judgeAnswers(on: &link.machine, counts: true, maximumStalls: 3, at: at(Double(round)))
            #expect((verdict?.departure == .unanswered) == (round == 3), "\(round)")
            if round == 3 { #expect(verdict?.explanation.contains("3 times in a row") == true) }
        }
    }
}
