import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

extension HeavyTests {
    /// Very many requests on real threads, with all kinds of faults: every call returns once, with its own response or
    /// an error, and nothing is left behind.
    @Suite(.timeLimit(.minutes(10)))
    struct StressLoopbackTests {
        /// The outcome of a request.
        private enum End: Hashable {
            case success, crossed
            case failure(ClientError.Code, ClientError.Fate)
        }

        /// How the server reacts to a request. The number in its body decides.
        private static func react(_ request: Frame) -> Reaction {
            let number = Int(String(request.body)) ?? 0
            switch number % 1000 {
            case 0..<20: return .twice
            case 20..<40: return .after(.milliseconds(3), .echo)
            case 40..<50: return .sequence([.echo, .after(.milliseconds(5), .echo)])
            case 50..<60: return .sequence([.unknownSerial, .echo])
            case 60..<80: return .noReply
            case 80..<90: return .sequence([.push(Frame(.push, type: 2, body: request.body)), .echo])
            case 90..<95: return .inPieces(of: 3)
            case 995...: return .outOfOrder(window: 3)
            default: return .echo
            }
        }

        /// Whether the server may never answer this number, so that a long timeout makes no sense.
        private static func mayStayUnanswered(_ number: Int) -> Bool {
            (60..<80).contains(number % 1000) || number % 1000 >= 995
        }

        /// One caller, which sends each of `numbers` with one form of call.
        private static func ask(_ client: Client, _ numbers: Range<Int>, seed: UInt64) async -> [End: Int] {
            var random = SeededGenerator(seed: seed)
            var ends: [End: Int] = [:]
            func note(_ number: Int, _ result: Result<Response, ClientError>) {
                switch result {
                case .success(let reply):
                    ends[reply.body == Bytes("\(number)") ? .success : .crossed, default: 0] += 1
                case .failure(let error): ends[.failure(error.code, error.fate), default: 0] += 1
                }
            }
            var next = numbers.lowerBound
            while next < numbers.upperBound {
                let number = next
                next += 1
                let short = Timeout.milliseconds(Int.random(in: 50...150, using: &random))
                let timeout: Timeout = mayStayUnanswered(number) ? short : .seconds(120)
                switch Int.random(in: 0..<12, using: &random) {
                case 0:  // cancelled, now or soon
                    let task = Task { await client.result(number, timeout) }
                    for _ in 0..<Int.random(in: 0...3, using: &random) { await Task.yield() }
                    task.cancel()
                    note(number, await task.value)
                case 1:
                    let handle = client.start(TrunklineTests.ask(number), timeout: timeout)
                    for _ in 0..<Int.random(in: 0...3, using: &random) { await Task.yield() }
                    handle.cancel()
                    do throws(ClientError) { note(number, .success(try await handle.value)) } catch {
                        note(number, .failure(error))
                    }
                case 2:  // a very short timeout
                    note(
                        number,
                        await client.result(number, .after(.microseconds(Int.random(in: 1...2000, using: &random))))
                    )
                case 3, 4:
                    let batch = number..<min(number + 20, numbers.upperBound)
                    next = batch.upperBound
                    let results = await client.send(
                        all: batch.map { TrunklineTests.ask($0) },
                        timeout: batch.contains(where: mayStayUnanswered) ? short : .seconds(120)
                    )
                    for (number, result) in zip(batch, results) { note(number, result) }
                default: note(number, await client.result(number, timeout))
                }
            }
            return ends
        }

        @Test(arguments: Mechanism.allCases)
        func everyCallEndsExactlyOnceInAStorm(_ mechanism: Mechanism) async throws {
            let total = max(1000, stormRequests / Mechanism.allCases.count)
            let workers = 100
            let serverOptions = LoopbackServer.Options {
                $0.answersCancelled = true
                $0.recordedFrames = 0
            }
            let maximumInFlight = 64
            let options = quickOptions {
                $0.requests.quarantine = .milliseconds(300)
                $0.requests.maximumInFlight = maximumInFlight
            }
            try await withServerAndClient(
                by: mechanism,
                options: serverOptions,
                clientOptions: options,
                handler: Self.react
            ) { server, client in
                let pushes = client.pushes()
                let resets = Task {
                    for round in 1...10 {
                        try await server.wait(within: .seconds(300)) { $0.requestCount >= round * total / 12 }
                        await server.disconnectAll(reset: round % 2 == 0)
                    }
                }
                let ends = await withTaskGroup(of: [End: Int].self) { group in
                    for worker in 0..<workers {
                        let numbers = worker * total / workers..<(worker + 1) * total / workers
                        group.addTask { await Self.ask(client, numbers, seed: UInt64(worker)) }
                    }
                    return await group.reduce(into: [:]) { $0.merge($1, uniquingKeysWith: +) }
                }
                resets.cancel()
                _ = try? await resets.value
                #expect(ends.values.reduce(0, +) == total)
                #expect(ends[.crossed] == nil)
                // In a small storm the resets may hit half of the requests.
                let lost = ends[.failure(.connectionLost, .unknown), default: 0]
                #expect(ends[.success, default: 0] > 0)
                #expect(ends[.success, default: 0] + lost > total / 2, "\(ends)")
                let codes = Set(ends.keys.compactMap { if case .failure(let code, _) = $0 { code } else { nil } })
                #expect(codes.isSubset(of: [.cancelled, .timedOut, .connectionLost]), "\(ends)")
                var metrics = await client.metrics
                #expect(metrics.pending == 0)
                #expect(metrics.connection.links > 1)
                // A link that ends fails no more requests than were in flight.
                #expect(lost <= metrics.connection.links * maximumInFlight, "\(ends)")
                // With or without a late response, every serial becomes free in the end.
                while metrics.heldSerials > 0 {
                    await Task.yield()
                    metrics = await client.metrics
                }
                await client.close()
                var received = 0
                for await push in pushes {
                    switch push {
                    case .message: received += 1
                    case .dropped(let count): received += count
                    case .reconnected: break
                    }
                }
                #expect(received <= metrics.pushes)
                try await server.waitForConnections(0, within: patience)
            }
        }

        /// A thousand tasks at once on one client. Every other task is cancelled while the responses arrive.
        @Test(arguments: Mechanism.allCases)
        func cancellationsRaceWithResponses(_ mechanism: Mechanism) async throws {
            let rounds = max(2, stormRequests / 10_000)
            let options = LoopbackServer.Options { $0.answersCancelled = true }
            try await withServerAndClient(by: mechanism, options: options) { server, client in
                for round in 0..<rounds {
                    let tasks = (0..<1000).map { number in Task { await client.result(number, .default) } }
                    for number in stride(from: 0, to: 1000, by: 2) { tasks[number].cancel() }
                    var cancelled = 0
                    for (number, task) in tasks.enumerated() {
                        switch await task.value {
                        case .success(let reply): #expect(reply.body == Bytes("\(number)"), "round \(round)")
                        case .failure(let error):
                            #expect(error.code == .cancelled)
                            #expect(number % 2 == 0)
                            cancelled += 1
                        }
                    }
                    #expect(cancelled <= 500)
                }
                // Every request was answered, late or in time: no serial is left in quarantine.
                while await client.metrics.heldSerials > 0 { await moment() }
                #expect(await client.metrics.pending == 0)
                #expect(await client.metrics.unknownResponses == 0)
                #expect(await server.totalConnections == 1)
            }
        }
    }
}

extension Client {
    /// Sends `number` and returns the result.
    fileprivate func result(_ number: Int, _ timeout: Timeout = .default) async -> Result<Response, ClientError> {
        do throws(ClientError) {
            return .success(try await send(ask(number), timeout: timeout))
        } catch {
            return .failure(error)
        }
    }
}
