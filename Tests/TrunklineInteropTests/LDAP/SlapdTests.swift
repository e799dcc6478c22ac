import Foundation
import Testing
import Trunkline

/// slapd, the server of OpenLDAP: two kinds of cancellation, and a bind that must be alone on its link.
@Suite(
    .tags(.realThreads),
    .timeLimit(.minutes(10)),
    .enabled(if: Slapd.isAvailable, "slapd is not installed")
)
struct SlapdTests {}

extension SlapdTests {
    private func withClient(
        _ kind: CancelKind = .unansweredRequest,
        _ change: (inout ClientOptions) -> Void = { _ in },
        _ body: nonisolated(nonsending) (Client) async throws -> Void
    ) async throws {
        let server = try await Slapd.start()
        defer { server.stop() }
        let options = ClientOptions { options in
            options.handshake.perform = { link in
                _ = try await link.send(.bind(as: Slapd.administrator, password: Slapd.password))
            }
            options.connecting.timeout = .seconds(60)
            options.handshake.timeout = .seconds(60)
            options.requests.timeout = .seconds(120)
            change(&options)
        }
        let codec = LDAPCodec(kind: kind)
        try await Trunkline.withClient(to: .unix(path: server.socketPath), speaking: codec, options: options) {
            client in
            try await body(client)
            #expect(await client.diagnostics.audit() == [])
        }
    }

    /// Starts searches that do not end, waits until each has its entries and a message that the rest are changes (RFC 4533,
    /// section 3.4.1), and cancels them.
    private func cancelSearches(_ count: Int, _ client: Client) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<count {
                group.addTask {
                    var entries: [Bytes] = []
                    for try await part in client.stream(.watch(Slapd.base), timeout: .never) {
                        if part.type == LDAPCodec.Operation.intermediateResponse.rawValue {
                            #expect(entries == [Slapd.base])
                            return
                        }
                        entries.append(part.body)
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    /// RFC 4511, section 4.11: "there is no response defined for the Abandon operation".
    @Test func abandonedSearchesHoldNothing() async throws {
        try await withClient {
            $0.requests.maximumInFlight = 4
        } _: { client in
            for _ in 0..<25 { try await cancelSearches(4, client) }
            _ = try await client.send(.add("seen", below: "dc=example"))
            let entries = try await client.send(.search(below: Slapd.base)).body
            #expect(entries == "dc=exampleou=seen,dc=example")
            let metrics = await client.metrics
            #expect(metrics.abandoned == 0 && metrics.failed == 100 && metrics.connection.links == 1)
            #expect(metrics.unknownResponses == 0 && metrics.unexpectedFrames == 0)
        }
    }

    /// RFC 3909: the Cancel has a response, and the search that it cancels ends with the code `canceled` (118).
    @Test func cancelledSearchesAndTheirCancelFramesAreAnswered() async throws {
        let (responses, continuation) = AsyncStream.makeStream(of: LateResponse.self)
        try await withClient(.answeredRequest) { options in
            options.requests.lateResponse = { continuation.yield($0) }
        } _: { client in
            var ends = responses.makeAsyncIterator()
            // One at a time: slapd 2.5 sends memory that it has freed, or crashes, if it cancels several at once.
            for _ in 0..<100 {
                try await cancelSearches(1, client)
                let late = try #require(await ends.next())
                #expect(late.reason?.name == "canceled", "\(late.response)")
            }
            _ = try await client.send(.search(below: Slapd.base))
            let metrics = await client.metrics
            #expect(metrics.abandoned == 0 && metrics.failed == 100 && metrics.connection.links == 1)
            #expect(metrics.unknownResponses == 0 && metrics.unexpectedFrames == 0)
        }
    }

    /// RFC 4511, section 4.2.1: before a bind, all outstanding operations must have ended, and the client must not send
    /// others before its response.
    @Test func bindsAreAloneOnTheirLink() async throws {
        try await withClient { client in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for caller in 0..<8 {
                    group.addTask {
                        for _ in 0..<50 {
                            let entries = try await client.send(.search(below: Slapd.base)).body
                            #expect(entries == "dc=example")
                        }
                    }
                    group.addTask {
                        let exclusive = CallOptions(isExclusive: true)
                        for round in 0..<5 {
                            let isRight = (caller + round) % 2 == 0
                            // A refused bind makes the link anonymous, and reading is allowed to everyone.
                            do throws(ClientError) {
                                let bind = Request.bind(
                                    as: Slapd.administrator,
                                    password: isRight ? Slapd.password : "wrong"
                                )
                                _ = try await client.send(bind, options: exclusive)
                                #expect(isRight)
                            } catch {
                                #expect(
                                    !isRight && error.code == .rejected && error.reason?.name == "invalidCredentials"
                                )
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            let metrics = await client.metrics
            #expect(metrics.connection.links == 1 && metrics.rejections == ["invalidCredentials": 20])
        }
    }

    /// Section 4.4.1: slapd announces that it closes the connection, which it does for an operation that it cannot read.
    @Test func aNoticeOfDisconnectionSaysWhy() async throws {
        try await withClient { client in
            let malformed = Request(type: LDAPCodec.Operation.searchRequest.rawValue, body: "no search")
            let error = await #expect(throws: ClientError.self) { try await client.send(malformed) }
            #expect(error?.code == .connectionLost && error?.fate == .unknown)
            #expect(error?.reason?.code == 2, "\(String(describing: error))")
            _ = try await client.send(.search(below: Slapd.base))
            #expect(await client.metrics.connection.links == 2)
        }
    }
}

private enum Slapd {
    static let isAvailable = ServerProcess.isAvailable("slapd")
    static let base: Bytes = "dc=example"
    static let administrator: Bytes = "cn=admin,dc=example"
    static let password: Bytes = "secret"

    /// Starts a server with one entry, in memory and files of its own.
    static func start() async throws -> ServerProcess {
        try await ServerProcess("slapd") { socketPath in
            let directory = URL(fileURLWithPath: socketPath).deletingLastPathComponent()
            let configuration = """
                include /etc/ldap/schema/core.schema
                modulepath /usr/lib/ldap
                moduleload back_mdb
                moduleload syncprov
                database mdb
                suffix "\(String(base))"
                rootdn "\(String(administrator))"
                rootpw \(String(password))
                directory \(directory.path)
                maxsize 10485760
                dbnosync
                overlay syncprov
                access to * by * read

                """
            let file = directory.appendingPathComponent("slapd.conf")
            try configuration.write(to: file, atomically: true, encoding: .utf8)
            let entry = "dn: dc=example\nobjectClass: dcObject\nobjectClass: organization\no: Example\ndc: example\n"
            let entries = directory.appendingPathComponent("entries.ldif")
            try entry.write(to: entries, atomically: true, encoding: .utf8)
            try await elsewhere {
                let arguments = ["-T", "add", "-f", file.path, "-l", entries.path]
                let program = URL(fileURLWithPath: ServerProcess.find("slapd") ?? "slapd")
                try Process.run(program, arguments: arguments).waitUntilExit()
            }
            let name = socketPath.replacingOccurrences(of: "/", with: "%2F")
            return ["-h", "ldapi://\(name)", "-f", file.path, "-d", "0"]
        }
    }
}
