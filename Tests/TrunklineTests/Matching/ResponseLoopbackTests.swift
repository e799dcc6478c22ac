import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

extension HeavyTests {
    /// Responses that come early, all at once or on a blocked link.
    @Suite(.timeLimit(.minutes(5)))
    struct ResponseLoopbackTests {
        @Test(arguments: Mechanism.allCases)
        func tenThousandResponsesAtOnceReachTheirBatch(_ mechanism: Mechanism) async throws {
            try await withServerAndClient(by: mechanism, handler: { _ in .shuffled(window: 10_000, seed: 7) }) {
                _,
                client in
                let results = await client.send(all: (0..<10_000).map { ask($0) })
                #expect(results.compactMap { try? Int(String($0.get().body)) } == Array(0..<10_000))
                #expect(await client.metrics.responses == 10_000)
                #expect(await client.metrics.heldSerials == 0)
            }
        }

        @Test(arguments: Mechanism.allCases)
        func tenThousandResponsesAtOnceReachTenThousandTasks(_ mechanism: Mechanism) async throws {
            try await withServerAndClient(by: mechanism, handler: { _ in .outOfOrder(window: 10_000) }) { _, client in
                let crossed = try await withThrowingTaskGroup(of: Bool.self) { group in
                    for number in 0..<10_000 {
                        group.addTask {
                            try await client.send(ask(number)).body != Bytes("\(number)")
                        }
                    }
                    return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
                }
                #expect(crossed == 0)
                #expect(await client.metrics.pending == 0)
            }
        }

        /// A server that responds as soon as it has a header, while the client still writes the body.
        private struct HastyCodec: FrameCodec, ServerSideCodec {
            var isServer = false
            var bodyLeft = 0
            var matching: ResponseMatching { FrameLayout.standardMatching }

            mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
                guard isServer else { return try FrameLayout.standardCodec.decode(&input) }
                if bodyLeft > 0 {
                    guard let piece = input.readBytes(min(input.count, bodyLeft)) else { return nil }
                    bodyLeft -= piece.count
                    return Frame(.pong)  // a piece of the body, which is ignored
                }
                guard let type = input.readInteger(as: UInt32.self), let serial = input.readInteger(as: UInt32.self),
                    let length = input.readInteger(as: UInt32.self)
                else { return nil }
                bodyLeft = Int(length)
                return Frame(.request, type: type, serial: SerialNumber(serial))
            }

            mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
                try FrameLayout.standardCodec.encode(frame, into: &output)
            }

            func serverSide() -> any FrameCodec { HastyCodec(isServer: true) }
        }

        @Test(arguments: Mechanism.allCases)
        func aResponseMayComeBeforeItsRequestIsFullyWritten(_ mechanism: Mechanism) async throws {
            let large = filled(15_000_000)
            try await withServer(speaking: HastyCodec()) { server in
                let options = quickOptions { $0.outbound.highWatermark = 1 << 30 }
                try await withClient(to: server.endpoint, speaking: .standard, options: options, on: mechanism.loops) {
                    client in
                    try await client.connect()
                    // More than the two kernels hold, so the client cannot have written it.
                    await server.script(.sequence([.stopReading, .reply("early")]))
                    let handles = (0..<4).map { _ in client.start(ask(large)) }
                    try await expectBody("early", of: handles[0])
                    #expect(handles[3].state == .queued)
                    await server.resumeReading()
                    for handle in handles.dropFirst() { _ = try await handle.value }
                    #expect(await client.metrics.unknownResponses == 0)
                    #expect(await server.totalConnections == 1)
                }
            }
        }

        // MARK: Blocked links

        /// The server stops reading and sends many pushes. The client has more to write than the kernels hold. If one
        /// side waited for the other to read before it reads itself, both would wait for ever.
        @Test(arguments: Mechanism.allCases)
        func readingContinuesWhileWritingIsBlocked(_ mechanism: Mechanism) async throws {
            let large = filled(1 << 20)
            let handler: LoopbackServer.Handler = { request in
                guard request.body == "flood" else { return .echo }
                return .sequence([.stopReading] + (0..<48).map { _ in .push(Frame(.push, type: 2, body: large)) })
            }
            let options = quickOptions { $0.requests.timeout = nil }
            try await withServerAndClient(by: mechanism, clientOptions: options, handler: handler) { server, client in
                let pushes = client.pushes(buffering: PushBuffering(maximumBytes: 1 << 30))
                try await client.post(ask("flood"))
                let handles = (0..<32).map { _ in client.start(ask(large)) }
                for await frame in pushes.messages.prefix(48) { #expect(frame.body.count == 1 << 20) }
                #expect(handles.allSatisfy { $0.state != .completed })
                await server.resumeReading()
                for handle in handles { #expect(try await handle.value.body.count == 1 << 20) }
            }
        }

        /// The kernels cannot hold what both sides want to write.
        @Test(arguments: Mechanism.allCases)
        func largeBodiesAreSentInBothDirectionsAtOnce(_ mechanism: Mechanism) async throws {
            try await withServerAndClient(by: mechanism) { server, client in
                let results = await client.send(all: (0..<24).map { ask(filled(4 << 20, with: UInt8($0))) })
                let ends = results.compactMap { result -> [UInt8]? in
                    guard let body = try? result.get().body, body.count == 4 << 20 else { return nil }
                    return [body[0], body[body.count - 1]]
                }
                #expect(ends == (0..<24).map { [UInt8($0), UInt8($0)] })
                #expect(await server.totalConnections == 1)
            }
        }

        // MARK: Broken protocol

        @Test(arguments: Mechanism.allCases, [Reaction.garbage([1, 2, 3, 4]), .absurdLength])
        func aProtocolViolationEndsTheLinkAndWrittenRequests(_ mechanism: Mechanism, _ nonsense: Reaction) async throws
        {
            let handler: LoopbackServer.Handler = { $0.body == "provoke" ? nonsense : .echo }
            let options = quickOptions { $0.requests.maximumInFlight = 1 }
            try await withServerAndClient(
                by: mechanism,
                speaking: strictLayout,
                clientOptions: options,
                handler: handler
            ) { server, client in
                let bodies: [Bytes] = ["provoke", "waiting", "waiting too"]
                let results = await client.send(all: bodies.map { Request(type: 7, body: $0) })
                let error = await failure { () throws(ClientError) in try results[0].get() }
                #expect(error?.code == .protocolViolation)
                #expect(error?.fate == .unknown)
                #expect(error?.cause is FrameError)
                #expect(results.dropFirst().compactMap { try? $0.get().body } == ["waiting", "waiting too"])
                #expect(await server.received.map(\.body) == ["provoke", "waiting", "waiting too"])
                #expect(await server.totalConnections == 2)
            }
        }
    }
}

extension FrameLayout {
    fileprivate static var standardCodec: FrameLayout { .standard }
    fileprivate static var standardMatching: ResponseMatching { standardCodec.matching }
}
