import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// The tables of `ConnectionStates.md`, cell by cell, in virtual time: what every state makes of everything that is asked.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct StateTableTests {}

extension StateTableTests {
    @Test(arguments: Situation.allCases)
    func everyOperationBehavesAsDocumented(_ situation: Situation) throws {
        for operation in Operation.allCases {
            let cell = try #require(StateTable.documented[situation, operation], "\(situation): \(operation)")
            for seed in 1...5 as ClosedRange<UInt64> {
                try StateWorld.run(in: situation, seed: seed) { world in
                    let outcome = try await world.outcome(of: operation)
                    #expect(outcome == cell, "\(operation) in \(situation), seed \(seed)")
                }
            }
        }
    }

    @Test(arguments: Situation.allCases)
    func closeNowReturnsAtOnceAndLeavesNothingBehind(_ situation: Situation) throws {
        try StateWorld.run(in: situation) { world in
            // One that waits, too: it goes out, or is told that it did not.
            let waiting = world.client.start(ask("waiting"))
            let began = world.now
            await world.client.closeNow()
            #expect(world.now == began)
            await world.expectNothingLeft(situation)
            let error = await failure(of: waiting)
            #expect(error?.code == .closed && error?.fate == .notSent)
        }
    }

    /// Requests that wait for a link are not dropped by `close()`: they have their time.
    @Test(arguments: [Situation.resolving, .connecting, .handshaking, .waiting, .noNetwork, .suspended])
    func closingWaitsForRequestsThatWaitForALink(_ situation: Situation) throws {
        try StateWorld.run(in: situation) { world in
            let waiting = world.client.start(ask("waiting"), timeout: .seconds(1))
            let began = world.now
            await world.client.close()
            #expect(world.now - began == .seconds(1))
            await world.expectNothingLeft(situation)
            let error = await failure(of: waiting)
            #expect(error?.code == .timedOut && error?.fate == .notSent)
        }
        try StateWorld.run(in: situation) { world in
            let waiting = world.client.start(ask("waiting"))
            try await world.pass(.milliseconds(100))
            await world.heal()
            await world.client.close()
            try await expectBody("waiting", of: waiting)
        }
    }

    @Test(arguments: Situation.allCases)
    func closingTakesNoLongerThanTheDrainTimeout(_ situation: Situation) throws {
        try StateWorld.run(in: situation, { $0.requests.drainTimeout = .milliseconds(500) }) { world in
            if situation != .draining, situation != .closed { _ = world.client.start(ask("slow")) }
            let began = world.now
            await world.client.close()
            #expect(world.now - began <= .milliseconds(500))
            await world.expectNothingLeft(situation)
        }
    }

    /// Without a client there are no requests to wait for.
    @Test(arguments: Situation.allCases)
    func aConnectionWithoutAClientClosesAtOnce(_ situation: Situation) throws {
        try StateWorld.run(in: situation) { world in
            var options = world.client.options
            options.handshake.restore = { _, _ in }
            let connection = world.network.connection(to: ["a:1", "b:1"], speaking: .standard, options: options)
            if situation != .idle { await connection.reconnectNow() }
            try await world.pass(.milliseconds(100))
            if situation == .suspended { await connection.suspend() }
            if [.resolving, .connecting, .handshaking, .waiting, .noNetwork, .suspended].contains(situation) {
                #expect(await connection.state.description.hasPrefix(situation.stateName))
            }
            let began = world.now
            await connection.close()
            #expect(world.now == began)
            #expect(await connection.state == .closed)
        }
    }

    /// The states said `ready` until all was over: that a client was draining could be seen only while it had bytes to
    /// write, and `ready` promises that requests go out.
    @Test func aDrainingClientReportsItsState() throws {
        try StateWorld.run(in: .ready) { world in
            var states = world.client.states.makeAsyncIterator()
            #expect(await states.next()?.isReady == true)
            let slow = world.client.start(ask("slow"))
            await world.client.close()
            try await expectBody("slow", of: slow)
            #expect(await states.next() == .draining)
            #expect(await states.next() == .closed)
            #expect(await states.next() == nil)
        }
    }

    @Test func suspendingAndResumingAnIdleClientLeavesItIdle() throws {
        try StateWorld.run(in: .idle) { world in
            await world.client.suspend()
            await world.client.resume()
            #expect(await world.client.connection.state == .idle)
            #expect(world.network.linksMade == 0)
        }
    }

    /// The link is lost in every state in which there is one.
    @Test(arguments: [Situation.handshaking, .ready, .left, .changing, .draining])
    func everyStateSurvivesTheLossOfItsLink(_ situation: Situation) throws {
        try StateWorld.run(in: situation) { world in
            world.network.reset()
            try await world.pass(.milliseconds(100))
            if let slow = world.slow {
                let error = await failure(of: slow)
                #expect(error?.code == .connectionLost && error?.fate == .unknown)
            }
            if situation == .draining {
                #expect(await world.client.connection.state == .closed)
            } else {
                await world.heal()
                try await expectEcho("after", by: world.client)
            }
        }
    }
}

extension SimulatedNetwork {
    /// Timers that are armed, of whomever.
    var armedTimers: Int { loop.timers.armedCount }
}

extension StateWorld {
    /// What `operation` comes to, in the words of the tables.
    fileprivate func outcome(of operation: Operation) async throws -> String {
        let client = client
        switch operation {
        case .send: return try await outcome { () throws(ClientError) in _ = try await client.send(ask("x")) }
        case .sendOnce:
            return try await outcome { () throws(ClientError) in
                _ = try await client.send(ask("x"), options: CallOptions(retry: .never))
            }
        case .sendNow:
            return try await outcome { () throws(ClientError) in
                _ = try await client.send(ask("x"), options: CallOptions(waitsForReady: false))
            }
        case .post: return try await outcome { () throws(ClientError) in try await client.post(ask("x")) }
        case .connect: return try await outcome { () throws(ClientError) in try await client.connect() }
        case .close: return try await outcomeOfClosing()
        case .suspend: return try await outcome(goingTo: nil) { await client.suspend() }
        case .resume: return try await outcome(goingTo: nil) { await client.resume() }
        case .reconnectNow: return try await outcome(goingTo: nil) { await client.reconnectNow() }
        case .switchEndpoint:
            let (a, b) = (servers[0].endpoint, servers[1].endpoint)
            let isAtB = if case .ready(b, _) = await client.connection.state { true } else { false }
            let other = isAtB ? a : b
            return try await outcome(goingTo: other) { () throws(ClientError) in
                try await client.switchEndpoint(to: other)
            }
        case .replaceEndpoints:
            let c = servers[2].endpoint
            return try await outcome(goingTo: c) { await client.replaceEndpoints([c]) }
        }
    }

    /// "at once", "connects", "waits", or the code of an error that must come in no time and say `notSent`.
    private func outcome(of call: @escaping @Sendable () async throws(ClientError) -> Void) async throws -> String {
        let (network, client, began) = (network, client, now)
        let wasIdle = await client.connection.state == .idle
        let task = Task(executorPreference: network.executor) {
            var failure: ClientError?
            do throws(ClientError) { try await call() } catch { failure = error }
            return (failure, network.clock.now.offset)
        }
        try await pass(.seconds(1))
        await heal()
        let (failure, at) = await task.value
        if let failure {
            #expect(at == began && failure.fate == .notSent, "\(failure)")
            return "\(failure.code)"
        }
        if at - began >= .seconds(1) { return "waits" }
        return wasIdle ? "connects" : "at once"
    }

    private func outcomeOfClosing() async throws -> String {
        let began = now
        await client.close()
        let took = now - began
        let isAtOnce = took == .zero
        if let slow {
            try await expectBody("slow", of: slow)
            #expect(took > .seconds(1) && took <= .seconds(2))
        }
        await expectNothingLeft(.closed)
        return isAtOnce ? "at once" : "when the last request has ended"
    }

    /// "stays", "new attempt", the new state's name, or "throws" and an error's code, all in no time. "next link" if it stays
    /// `ready` until the link to `endpoint` is.
    private func outcome(
        goingTo endpoint: Endpoint?,
        _ command: () async throws(ClientError) -> Void
    ) async throws -> String {
        let (before, began) = (await client.connection.state, now)
        var states = client.states.makeAsyncIterator()
        #expect(await states.next() == before)
        var failure: ClientError?
        do throws(ClientError) { try await command() } catch { failure = error }
        let after = await client.connection.state
        #expect(now == began)
        if let failure { return "throws \(failure.code)" }
        if after == before {
            guard let endpoint, case .ready(_, let session) = before else { return "stays" }
            try await pass(.milliseconds(100))
            await heal()
            // A handshake that was not answered is given up first, and waited for as the policy says.
            try await pass(.seconds(20))
            guard let next = await states.next(), case .ready(endpoint, let following) = next else { return "stays" }
            #expect(following > session)
            return "next link"
        }
        let attempted: Endpoint
        switch after {
        case .resolving(let target, _): attempted = target
        case .connecting(let target, _) where Wire.isSecured: attempted = target  // what TLS needs is read first
        default: return after.description
        }
        #expect(endpoint == nil || endpoint == attempted)
        return "new attempt"
    }
}
