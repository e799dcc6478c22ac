import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback

/// A connection without a client: reading frames, states, writing and closing.
///
/// A task that does not prefer the event loop is enqueued anew at *every* `await` on the loop, even for a call
/// that stays on the same actor. A condition that was true before an `await` may be false after it. Several tests
/// here check this.
@Suite(.tags(.realThreads), .timeLimit(.minutes(15)))
struct ConnectionLoopbackTests {}

extension ConnectionLoopbackTests {
    private func withConnection(
        by mechanism: Mechanism = .epoll,
        speaking layout: FrameLayout = .standard,
        handler: @escaping LoopbackServer.Handler = { _ in .echo },
        _ body: nonisolated(nonsending) (LoopbackServer, Connection) async throws -> Void
    ) async throws {
        try await withServer(speaking: layout, handler: handler) { server in
            let connection = Connection(
                to: server.endpoint,
                speaking: layout,
                options: ConnectionOptions(quickOptions()),
                on: mechanism.loops
            )
            do {
                try await body(server, connection)
            } catch {
                await connection.closeNow()
                throw error
            }
            await connection.closeNow()
        }
    }

    @Test(arguments: Mechanism.allCases)
    func framesOfEveryKindComeInOrderAcrossLinks(_ mechanism: Mechanism) async throws {
        let handler: LoopbackServer.Handler = { _ in .sequence([.push(Frame(.push, type: 2)), .ping, .echo]) }
        try await withConnection(by: mechanism, handler: handler) { server, connection in
            try await connection.withFrames { stream in
                var frames = stream.makeAsyncIterator()
                for round in 1...3 {
                    try await connection.write(Frame(.request, type: 0x410, serial: SerialNumber(round)))
                    var kinds: [Frame.Kind?] = []
                    for _ in 0..<3 { kinds.append(await frames.next()?.kind) }
                    #expect(kinds == [.push, .ping, .response])
                    await server.disconnectAll()
                    // Only a reader or a writer notices the loss.
                    var link = connection.states.makeAsyncIterator()
                    async let next = frames.next()
                    try await server.wait(within: patience) {
                        $0.totalConnections == round + 1 && $0.connectionCount == 1
                    }
                    try await server.push(Frame(.push, type: 3))
                    #expect(await next?.type == 3)
                    while let state = await link.next(), !state.isReady {}
                }
            }
        }
    }

    @Test(arguments: Mechanism.allCases)
    func statesCoverTheWholeLifeOfAConnection(_ mechanism: Mechanism) async throws {
        try await withConnection(by: mechanism) { server, connection in
            let states = connection.states
            let telling = Task {
                var names: [String] = []
                for await state in states {
                    let name = state.description.prefix { $0 != " " && $0 != ":" }
                    if names.last != String(name) { names.append(String(name)) }
                }
                return names
            }
            #expect(await connection.state == .idle)
            try await connection.write(Frame(.request, type: 0x410, serial: 1))
            try await server.waitForRequests(1, within: patience)
            var current = connection.states.makeAsyncIterator()
            #expect(await current.next()?.isReady == true)
            #expect(try await connection.nextFrame()?.serial == 1)
            await server.stopAccepting()
            await server.disconnectAll()
            async let frame = connection.nextFrame()  // a reader notices the loss
            while let state = await current.next() {
                if case .waiting = state { break }
            }
            try await server.resumeAccepting()
            while let state = await current.next(), !state.isReady {}
            await connection.close()
            _ = try await frame
            #expect(await connection.state == .closed)
            #expect(await current.next() == .closed)
            #expect(await current.next() == nil)
            let names = await telling.value
            #expect(names.first == "idle")
            #expect(names.last == "closed")
            for name in ["connecting", "ready", "waiting"] { #expect(names.contains(name)) }
        }
    }

    @Test func aFailedWriteReportsItsCodeAndFate() async throws {
        try await withConnection(speaking: strictLayout) { server, connection in
            let unencodable = await failure { () throws(ClientError) in
                try await connection.write(Frame(.request, type: 0x1_0000))
            }
            #expect(unencodable?.code == .invalidRequest)
            #expect(unencodable?.fate == .notSent)
            await server.stopAccepting()
            await server.disconnectAll()
            let cancelled = await withTaskGroup(of: ClientError?.self) { group in
                group.cancelAll()
                group.addTask {
                    await failure { () throws(ClientError) in try await connection.write(Frame(.request, type: 7)) }
                }
                return await group.next() ?? nil
            }
            #expect(cancelled?.code == .cancelled)
            #expect(cancelled?.fate == .notSent)
            await connection.close()
            let closed = await failure { () throws(ClientError) in
                try await connection.write(Frame(.request, type: 7))
            }
            #expect(closed?.code == .closed)
            #expect(closed?.fate == .notSent)
            let none = try await connection.nextFrame()
            #expect(none == nil)
        }
    }

    @Test func aCancelledReaderLeavesTheFramesToTheNextOne() async throws {
        try await withConnection { _, connection in
            let cancelled = Task { try await connection.nextFrame() }
            cancelled.cancel()
            #expect(try await cancelled.value == nil)
            try await connection.write(Frame(.request, type: 0x410, serial: 9))
            #expect(try await connection.nextFrame()?.serial == 9)
        }
    }

    @Test func closeWritesQueuedFrames() async throws {
        try await withConnection { server, connection in
            try await connection.write(Frame(.request, type: 0x410, serial: 1))
            let writes = (2...50).map { serial in
                Task {
                    do throws(ClientError) {
                        try await connection.write(
                            Frame(.request, type: 0x410, serial: SerialNumber(serial), body: filled(10_000))
                        )
                        return true
                    } catch {
                        #expect(error.code == .closed)
                        #expect(error.fate == .notSent)
                        return false
                    }
                }
            }
            await connection.close()
            var written = 1
            for write in writes where await write.value { written += 1 }
            try await server.wait(within: patience) { $0.totalConnections == 1 && $0.connectionCount == 0 }
            #expect(await server.journal.requestCount == written)
        }
    }

    // MARK: Races between a check and a registration

    /// Regression: the condition became true between the check of the journal and the registration of the waiting task.
    @Test func aTaskThatIsAboutToWaitDoesNotMissAnEvent() async throws {
        try await withServerAndClient { server, client in
            for round in 1...1000 {
                let body = Bytes("\(round)")
                async let reply = client.send(ask(body))
                try await server.waitForRequest(within: patience) { $0.body == body }
                _ = try await reply
            }
        }
    }

    /// Regression: the connection was closed between the check whether it is closed and the registration of a reader, a
    /// writer or a task that waits for the end. These waited for ever.
    @Test func readersAndWritersEndWhenTheConnectionCloses() async throws {
        try await withServer(speaking: .standard) { server in
            for _ in 0..<200 {
                let connection = Connection(
                    to: server.endpoint,
                    speaking: .standard,
                    options: ConnectionOptions(quickOptions())
                )
                try await connection.write(Frame(.request, type: 0x410, serial: 1))
                await withTaskGroup(of: Void.self) { group in
                    for _ in 0..<2 {
                        group.addTask {
                            // Only one consumer is allowed at a time.
                            try? await connection.withFrames { frames in for await _ in frames {} }
                        }
                        group.addTask {
                            do throws(ClientError) {
                                while true { try await connection.write(Frame(.request, type: 0x410, serial: 2)) }
                            } catch { #expect(error.code == .closed) }
                        }
                        group.addTask { await connection.close() }
                    }
                }
                #expect(await connection.state == .closed)
            }
        }
    }

    /// Regression: a frame was delivered between a reader's check of the inbox and its registration. It stayed there
    /// until the next frame came.
    @Test func aReaderThatIsAboutToWaitDoesNotMissAFrame() async throws {
        let handler: LoopbackServer.Handler = { _ in .sequence([.echo, .echo, .echo]) }
        try await withConnection(handler: handler) { _, connection in
            for round in 1...300 {
                await withTaskGroup(of: Void.self) { group in
                    group.addTask {
                        await #expect(throws: Never.self) {
                            try await connection.withFrames { frames in for await _ in frames.prefix(3) {} }
                        }
                    }
                    try? await connection.write(Frame(.request, type: 0x410, serial: SerialNumber(round)))
                }
            }
        }
    }

    // MARK: The consumer of the frames

    @Test func framesHaveOneConsumerAtATime() async throws {
        try await withConnection { _, connection in
            // When a consumer has ended, the next one may begin.
            for serial in [3, 4] as [SerialNumber] {
                try await connection.write(Frame(.request, type: 0x410, serial: serial))
                let read = try await connection.withFrames { frames in
                    let second = await #expect(throws: ClientError.self) { try await connection.nextFrame() }
                    #expect(second?.code == .invalidRequest && second?.message.contains("in progress") == true)
                    return await frames.first { _ in true }?.serial
                }
                #expect(read == serial)
            }
        }
    }

    @Test func theFramesOfACallEndWithIt() async throws {
        try await withConnection { _, connection in
            let frames = try await connection.withFrames { $0 }
            try await connection.write(Frame(.request, type: 0x410, serial: 3))
            #expect(await frames.first { _ in true } == nil)
            #expect(try await connection.nextFrame()?.serial == 3)
            await #expect(throws: CancellationError.self) {
                try await connection.withFrames { _ in throw CancellationError() }
            }
            try await connection.write(Frame(.request, type: 0x410, serial: 4))
            #expect(try await connection.nextFrame()?.serial == 4)
        }
    }

    /// Two tasks iterate one stream. The next frame goes to the first task, the second task does not wait, and
    /// the stream ends.
    @Test func aFrameStreamThatTwoTasksIterateEnds() async throws {
        try await withConnection { _, connection in
            try await connection.withFrames { frames in
                async let first = serials(of: frames)
                while await !connection.hasReader { await moment() }
                let second = await frames.first { _ in true }
                #expect(second == nil)
                #expect(await connection.endReason?.code == .invalidRequest)
                for serial in [5, 6] as [SerialNumber] {
                    try await connection.write(Frame(.request, type: 0x410, serial: serial))
                }
                let read = await first
                #expect(read == [5])
            }
            // The next consumer receives the frames that were not read.
            let next = try await connection.nextFrame()
            #expect(next?.serial == 6)
            #expect(await connection.endReason == nil)
        }
    }

    /// A task that still waits for a frame when its call returns gets none, and does not disturb the next call.
    @Test func aTaskThatOutlivesItsCallGetsNoFrame() async throws {
        try await withConnection { _, connection in
            let late = try await connection.withFrames { frames in
                let late = Task { await frames.first { _ in true } }
                while await !connection.hasReader { await moment() }
                return late
            }
            async let next = connection.nextFrame()
            #expect(await late.value == nil)
            try await connection.write(Frame(.request, type: 0x410, serial: 3))
            #expect(try await next?.serial == 3)
        }
    }

    /// While no task asks for a frame, pings of the server are answered, and the end of the link is noticed.
    @Test(arguments: Mechanism.allCases)
    func aConnectionIsAliveWhileNoTaskAsksForAFrame(_ mechanism: Mechanism) async throws {
        let handler: LoopbackServer.Handler = { _ in .sequence([.push(Frame(.push, type: 2)), .ping, .echo]) }
        try await withConnection(by: mechanism, handler: handler) { server, connection in
            try await connection.write(Frame(.request, type: 0x410, serial: 1))
            try await server.wait(within: patience) { $0.pongCount == 1 }
            await server.disconnectAll()
            var states = connection.states.makeAsyncIterator()
            while let state = await states.next(), state != .idle {}
            var kinds: [Frame.Kind] = []
            try await connection.withFrames { frames in
                for await frame in frames.prefix(3) { kinds.append(frame.kind) }
            }
            #expect(kinds == [.push, .ping, .response])
        }
    }

    @Test func endReasonTellsWhyTheFramesEnded() async throws {
        try await withConnection { server, connection in
            #expect(await connection.endReason == nil)
            async let end = connection.nextFrame()
            try await server.waitForConnections(1, within: patience)
            await connection.close()
            _ = try await end
            #expect(await connection.endReason?.code == .closed)
        }
        let options = ConnectionOptions {
            $0.reconnecting.maximumAttempts = 2
            $0.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(1))
        }
        // No server listens on port 1.
        let connection = Connection(to: "127.0.0.1:1", speaking: .standard, options: options)
        try await connection.withFrames { frames in for await _ in frames {} }
        let reason = await connection.endReason
        #expect(reason?.code == .unavailable && reason?.attempts.count == 2)
        await connection.close()
    }
}

/// The serials of the frames that arrive until `frames` ends.
private func serials(of frames: AsyncStream<Frame>) async -> [SerialNumber] {
    var serials: [SerialNumber] = []
    for await frame in frames { serials.append(frame.serial) }
    return serials
}

extension Connection {
    /// Whether a task waits for a frame.
    fileprivate var hasReader: Bool { driver.frameUse?.reader != nil }

    /// Waits for the next frame.
    fileprivate func nextFrame() async throws -> Frame? { try await withFrames { await $0.first { _ in true } } }
}
