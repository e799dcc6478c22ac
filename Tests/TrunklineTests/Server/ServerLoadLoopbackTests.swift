import Foundation
import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// High load, and clients that misbehave.
@Suite(.tags(.realThreads), .timeLimit(.minutes(15)), .serialized)
struct ServerLoadLoopbackTests {}

extension ServerLoadLoopbackTests {
    @Test func thousandsOfConnectionsLeaveNothingBehind() async throws {
        try await withServer(speaking: .standard) { server in
            for round in 0..<2000 {
                let client = Client(to: server.endpoint, speaking: .standard, options: quickOptions())
                if round % 2 == 0 {
                    _ = try await client.send(Request(type: 0x410))
                } else {
                    try await client.connect()
                }
                if isTableOfSocketsReadable, round < 4 { #expect(openSockets(to: server.endpoint) > 0) }
                if round % 3 == 0 { await client.close() } else { await client.closeNow() }
            }
            // `connect` returns before the server has accepted. The last connection may still be on its way.
            try await server.wait(within: patience) { $0.totalConnections == 2000 && $0.connectionCount == 0 }
            // The client's sockets linger until the server has closed its own.
            let limit = ContinuousClock.now + .seconds(60)
            while openSockets(to: server.endpoint) > 0, ContinuousClock.now < limit {
                try await Task.sleep(for: .milliseconds(20))
            }
            #expect(openSockets(to: server.endpoint) == 0)
            #expect(await server.totalConnections == 2000)
        }
    }

    @Test func closedConnectionsLeaveNoDelayedRepliesBehind() async throws {
        try await withServer(speaking: .standard, handler: { _ in .after(.seconds(3600), .echo) }) { server in
            for _ in 0..<100 {
                let client = Client(to: server.endpoint, speaking: .standard, options: quickOptions())
                let handles = (0..<20).map { _ in client.start(Request(type: 0x410)) }
                try await server.wait(within: patience) { $0.requestCount % 20 == 0 && $0.requestCount > 0 }
                #expect(handles.count == 20)
                await client.closeNow()
                try await server.waitForConnections(0, within: patience)
                await server.forget()
            }
            #expect(await server.delayedCount == 0)
        }
    }

    /// Both socket buffers are full of replies, but the server keeps reading. A server that waited for its writes would
    /// deadlock with a client that does the same.
    @Test func aServerKeepsReadingWhileItsRepliesAreNotRead() async throws {
        try await withServerAndConnection { server, connection in
            let body = Bytes([UInt8](repeating: 1, count: 40_000))
            let count = 500
            for serial in 1...count {
                try await connection.write(Frame(.request, type: 0x410, serial: SerialNumber(serial), body: body))
            }
            let journal = try await server.wait(within: patience) { $0.requestCount == count }
            #expect(journal.bytesSent < count * 40_000)
            let serials = await serials(of: connection, count)
            #expect(serials == (1...count).map { SerialNumber($0) })
        }
    }

    @Test func aClientThatNeverReadsIsReset() async throws {
        let options = LoopbackServer.Options { $0.maximumUnsent = 1_000_000 }
        let handler: LoopbackServer.Handler = { _ in .reply(Bytes([UInt8](repeating: 1, count: 1_000_000))) }
        try await withServer(speaking: .standard, options: options, handler: handler) { server in
            let connection = Connection(
                to: server.endpoint,
                speaking: .standard,
                options: ConnectionOptions(quickOptions())
            )
            for serial in 1...20 {
                try? await connection.write(Frame(.request, type: 0x410, serial: SerialNumber(serial)))
            }
            // It may have connected again for the other requests.
            try await server.wait(within: patience) { $0.overflowCount >= 1 }
            await connection.closeNow()
        }
    }

    @Test(arguments: 0..<20)
    func randomBytesNeverStopTheServer(seed: UInt64) async throws {
        var generator = Generator(state: seed)
        try await withServer(speaking: seed % 2 == 0 ? .standard : strictLayout) { server in
            for round in 1...10 {
                let vandal = Connection(
                    to: server.endpoint,
                    speaking: RawCodec(),
                    options: ConnectionOptions(quickOptions())
                )
                let bytes = (0..<Int.random(in: 1...2000, using: &generator)).map { _ in
                    UInt8.random(in: 0...(round % 2 == 0 ? 3 : 255), using: &generator)
                }
                try? await vandal.write(Frame(.request, body: Bytes(bytes)))
                await vandal.closeNow()
            }
            try await server.waitForConnections(0, within: patience)
        }
    }

    @Test func manyConcurrentClientsGetTheirOwnResponses() async throws {
        try await withServer(speaking: .standard) { server in
            try await withThrowingTaskGroup { group in
                for number in 0..<50 {
                    group.addTask {
                        try await withClient(to: server.endpoint, speaking: .standard, options: quickOptions()) {
                            client in
                            for index in 0..<20 {
                                let body = Bytes("\(number) \(index)")
                                let reply = try await client.send(Request(type: 0x410, body: body))
                                #expect(reply.body == body)
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(await server.journal.requestCount == 1000)
            #expect(await server.totalConnections == 50)
        }
    }
}

private struct Generator: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return state ^ state >> 29
    }
}

/// The system's table of TCP sockets. Absent outside Linux.
private let tableOfSockets = "/proc/net/tcp"
private let isTableOfSocketsReadable = FileManager.default.isReadableFile(atPath: tableOfSockets)

/// The number of open sockets at both ends of the connections to `endpoint`, which is on this host. 0 on systems without
/// the table.
///
/// Descriptors of the process would also count the sockets of other suites. `String(contentsOfFile:)` returns only the
/// first page of such a file, whose size is said to be 0.
private func openSockets(to endpoint: Endpoint) -> Int {
    guard case .host(_, let port) = endpoint.target,
        let file = FileHandle(forReadingAtPath: tableOfSockets), let data = try? file.readToEnd()
    else { return 0 }
    let table = String(decoding: data, as: UTF8.self)
    let digits = String(port, radix: 16, uppercase: true)
    let suffix = ":" + String(repeating: "0", count: 4 - digits.count) + digits
    return table.split(separator: "\n").dropFirst().count { line in
        let fields = line.split(separator: " ")
        guard fields.count > 9, fields[3] != "0A" else { return false }  // the listener
        // A connection that only the kernel still remembers has no inode.
        return fields[9] != "0" && (fields[1].hasSuffix(suffix) || fields[2].hasSuffix(suffix))
    }
}
