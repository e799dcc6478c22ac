import Testing

@testable import TrunklineCore
@testable import TrunklineLayouts
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Closing while the socket accepts few bytes or none, and no caller waits for what is still to be written.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct ClosingFullBufferTests {}

extension ClosingFullBufferTests {
    /// Runs `body` when half of a large frame is written, its request has timed out, and the server does not read.
    private func simulateHalfWritten(
        _ body: @escaping @Sendable (SimulatedService, Client) async throws -> Void
    ) throws {
        try simulate(handler: { _ in .noReply }) { service, client in
            try await client.connect()
            await service.server.pauseReading()
            let handle = client.start(ask(filled(1_000_000)), timeout: .seconds(4))
            #expect(await failure(of: handle)?.fate == .unknown)
            try await body(service, client)
        }
    }

    /// Regression: close waited the whole drain timeout, 30 s, for the rest of an abandoned request, with no
    /// request in flight.
    @Test func closeDoesNotWaitForTheRestOfAnAbandonedRequest() throws {
        try simulateHalfWritten { service, client in
            let began = service.now
            await client.close()
            let took = service.now - began
            #expect(took == .seconds(2))
        }
    }

    /// A peer that reads, however slowly, receives the whole frame, so that it can decode the next one.
    @Test func closeWaitsForAPeerThatReadsSlowly() throws {
        try simulateHalfWritten { service, client in
            let began = service.now
            async let closing: Void = client.close()
            for _ in 0..<20 {
                try await service.pass(.seconds(1))
                await service.server.resumeReading()
                try await service.pass(.microseconds(1))
                await service.server.pauseReading()
            }
            await service.server.resumeReading()
            await closing
            let took = service.now - began
            #expect(took > .seconds(3))
            try await service.server.waitForRequests(1)
        }
    }

    /// The same without a client: close waits the whole drain timeout for a waiting writer, but not for a
    /// cancelled one.
    @Test(arguments: [(true, Duration.seconds(2)), (false, .seconds(30))])
    func closeWaitsForAWriterThatIsNotCancelled(givesUp: Bool, time: Duration) throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard)
            let connection = network.connection(to: ["db:7000"], speaking: .standard)
            try await connection.write(Frame(.request, type: 0x410))
            await server.pauseReading()
            try await withThrowingTaskGroup { group in
                group.addTask {
                    await #expect(throws: ClientError.self) {
                        try await connection.write(Frame(.request, type: 0x410, body: filled(1_000_000)))
                    }
                }
                try await network.clock.sleep(for: .seconds(1))
                if givesUp { group.cancelAll() }
                let began = network.clock.now.offset
                await connection.close()
                let took = network.clock.now.offset - began
                #expect(took == time)
                try await group.waitForAll()
            }
            await server.stop()
        }
    }

    /// Regression: the last frame in the outbound queue was cancelled, and the closing connection did not notice that
    /// the queue was empty. It checked only every 2 s.
    @Test func closingEndsWhenTheLastWriterIsCancelled() throws {
        var conditions = NetworkConditions()
        (conditions.sendBuffer, conditions.receiveWindow, conditions.fragmentation) = (1000, 1000, 0)
        let network = SimulatedNetwork(seed: 1, conditions: conditions)
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard, overTLS: false) { _ in .noReply }
            let connection = network.connection(to: ["db:7000"], speaking: .standard, overTLS: false)
            try await connection.write(Frame(.request, type: 0x410))
            try await server.waitForRequests(1)
            await server.pauseReading()
            // As many bytes as the sockets of both sides hold, so that no byte of the next frame is written.
            try await connection.write(Frame(.request, type: 0x410, body: filled(2000 - 12)))
            let writing = Task(executorPreference: network.executor) {
                await failure { () throws(ClientError) in
                    try await connection.write(Frame(.request, type: 0x410))
                }
            }
            try await network.clock.sleep(for: .seconds(1))
            async let closing: Void = connection.close()
            try await network.clock.sleep(for: .milliseconds(500))
            let began = network.clock.now.offset
            writing.cancel()
            await closing
            let took = network.clock.now.offset - began
            #expect(took == .zero, "\(took)")
            let error = await writing.value
            #expect(error?.code == .cancelled && error?.fate == .notSent)
            await server.stop()
        }
    }
}
