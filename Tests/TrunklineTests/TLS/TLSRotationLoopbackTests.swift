import Foundation
import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// Certificates and keys that change while clients run.
@Suite(.tags(.realThreads)) struct TLSRotationLoopbackTests {
    private let directory = FileManager.default.temporaryDirectory
        .appendingPathComponent("trunkline-rotation-\(UUID().uuidString.prefix(8))").path

    init() throws {
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    }

    /// Replaces the file `name` with `text` by a rename, as rotation tools do, so that no process reads half of it.
    private func replace(_ name: String, with text: PEM) throws {
        try text.write(toFile: "\(directory)/\(name).new")
        guard unsafe rename("\(directory)/\(name).new", "\(directory)/\(name)") == 0 else {
            throw CocoaError(.fileWriteUnknown)
        }
    }

    @Test("the next link is secured with the new certificate, key and roots", .timeLimit(.minutes(5)))
    func rotates() async throws {
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let authority = try TestAuthority()
        let (old, new) = (try TestAuthority(named: "old clients"), try TestAuthority(named: "new clients"))
        let first = try old.identity(for: "worker", usage: .client)
        try replace("roots.pem", with: authority.root)
        try replace("worker.pem", with: first.certificates)
        try replace("worker.key", with: first.privateKey)
        let directory = directory
        let options = ClientOptions { options in
            options.tls.roots = .only(.file("\(directory)/roots.pem"))
            options.tls.identity = TLSIdentity(
                certificates: .file("\(directory)/worker.pem"),
                privateKey: .file("\(directory)/worker.key")
            )
            options.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(20))
            options.connecting.timeout = patience
            options.requests.timeout = patience
        }
        let identity = try authority.identity(for: "127.0.0.1")
        func server(_ clients: TestAuthority, _ identity: TLSIdentity) async throws -> LoopbackServer {
            try await LoopbackServer.start(
                speaking: .standard,
                options: LoopbackServer.Options { $0.tls = .init(identity) { $0.clientRoots = clients.root } }
            )
        }
        let before = try await server(old, identity)
        let client = Client(to: before.endpoint, speaking: .standard, options: options)
        try await expectEcho("before", by: client)

        // Another server, which accepts only the new clients, and whose certificate has another root.
        let successor = try TestAuthority()
        let after = try await server(new, try successor.identity(for: "127.0.0.1"))
        let second = try new.identity(for: "worker", usage: .client)
        try replace("roots.pem", with: successor.root)
        try replace("worker.pem", with: second.certificates)
        try replace("worker.key", with: second.privateKey)
        await client.replaceEndpoints([after.endpoint])
        await client.becomesReady(at: after.endpoint)
        try await expectEcho("after", by: client)
        #expect(await after.journal.handshakeCount == 1)

        // During a rotation: the previous content of the file is no longer trusted, but no request fails.
        var reports = client.disconnects.makeAsyncIterator()
        try FileManager.default.removeItem(atPath: "\(directory)/roots.pem")
        await client.suspend()
        await client.resume()
        async let reply = client.send(ask("waits"), timeout: .after(patience))
        var report = await reports.next()
        while let other = report, other.phase != .securing { report = await reports.next() }  // of ended links
        let error = report?.error as? TransportError
        #expect(report?.phase == .securing && error?.code == .tls(.configuration))
        #expect(error?.message.contains("roots.pem") == true)
        try replace("roots.pem", with: successor.root)
        #expect(try await reply.body == "waits")
        await client.closeNow()
        await before.stop()
        await after.stop()
    }

    /// Changed files are noticed while there is a link. The next link is established with them, and no request
    /// waits or fails.
    @Test("a link is replaced when its certificate has changed", .timeLimit(.minutes(5)))
    func renewsTheLink() async throws {
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let authority = try TestAuthority()
        let workers = try TestAuthority(named: "clients")
        let first = try workers.identity(for: "worker", usage: .client)
        try replace("worker.pem", with: first.certificates)
        try replace("worker.key", with: first.privateKey)
        let directory = directory
        let options = ClientOptions { options in
            options.tls.roots = .only(authority.root)
            options.tls.identity = TLSIdentity(
                certificates: .file("\(directory)/worker.pem"),
                privateKey: .file("\(directory)/worker.key")
            )
            options.tls.rotationCheck = .milliseconds(5)
            options.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(20))
            options.connecting.timeout = patience
            options.requests.timeout = patience
        }
        let identity = try authority.identity(for: "127.0.0.1")
        let server = try await LoopbackServer.start(
            speaking: .standard,
            options: LoopbackServer.Options { $0.tls = .init(identity) { $0.clientRoots = workers.root } }
        )
        let client = Client(to: server.endpoint, speaking: .standard, options: options)
        try await expectEcho("first", by: client)
        for rotation in 1...3 {
            // At first only half of the pair, which does not match: the link stays.
            let next = try workers.identity(for: "worker", usage: .client)
            try replace("worker.pem", with: next.certificates)
            for number in 0..<20 { try await expectEcho(Bytes("\(number)"), by: client) }
            try replace("worker.key", with: next.privateKey)
            while await client.metrics.connection.links == rotation {
                try await expectEcho("during", by: client)
                await moment()
            }
        }
        let metrics = await client.metrics
        #expect(metrics.connection.disconnects[.reset] == nil)
        await client.closeNow()
        await server.stop()
    }
}
