import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// Asking for SRV records on a thread of its own.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5))) struct SRVSearchTests {
    /// A fake of the system's function, which blocks until it is opened.
    private final class NameServer: Sendable {
        private let state = Lock((questions: 0, isOpen: false))
        let answer: Result<[UInt8], TransportError>

        init(_ answer: Result<[UInt8], TransportError> = .success(NameServer.message)) { self.answer = answer }

        /// One record: priority 1, weight 2, port 3, target "a".
        static let message: [UInt8] =
            [0, 7, 0x81, 0x80, 0, 0, 0, 1, 0, 0, 0, 0] + [
                0, 0, 33, 0, 1, 0, 0, 0, 60, 0, 9, 0, 1, 0, 2, 0, 3, 1, 97, 0,
            ]

        var questions: Int { state.withLock { $0.questions } }
        func open() { state.withLock { $0.isOpen = true } }

        func search(_ name: String) -> Result<[UInt8], TransportError> {
            state.withLock { $0.questions += 1 }
            while !state.withLock({ $0.isOpen }) { sleepShortly() }
            return answer
        }
    }

    private let loop = Mechanism.epoll.loops.next()

    private func targets(_ search: SRVSearch, within timeout: Duration = patience) async throws(TransportError)
        -> [String]
    {
        try await search.records(within: timeout, on: loop).map(\.record.target)
    }

    private func error(_ search: SRVSearch, within timeout: Duration = patience) async -> TransportError? {
        do throws(TransportError) {
            let targets = try await targets(search, within: timeout)
            Issue.record("no error, but \(targets)")
            return nil
        } catch {
            return error
        }
    }

    @Test func theAnswerOfTheThreadIsReturned() async throws {
        let server = NameServer()
        server.open()
        let search = SRVSearch("x") { server.search($0) }
        for _ in 0..<20 { #expect(try await targets(search) == ["a"]) }
        #expect(server.questions == 20)
    }

    @Test func aQuestionIsNotAskedTwiceAtTheSameTime() async throws {
        let server = NameServer()
        let search = SRVSearch("_x._tcp.y") { server.search($0) }
        for _ in 0..<5 {
            let error = await error(search, within: .milliseconds(20))
            #expect(error?.code == .timedOut)
            #expect(error?.message == "asking for the SRV records of _x._tcp.y: no answer within 0.02 seconds")
        }
        // Its thread may not have run yet.
        while server.questions == 0 { await moment() }
        #expect(server.questions == 1)
        server.open()
        #expect(try await targets(search) == ["a"])
    }

    @Test func cancellingEndsTheWait() async throws {
        let server = NameServer()
        let search = SRVSearch("x") { server.search($0) }
        let task = Task { await error(search) }
        while server.questions == 0 { await moment() }
        task.cancel()
        #expect(await task.value?.code == .timedOut)
        server.open()
    }

    @Test func invalidAnswersAndFailuresAreErrors() async throws {
        let answers: [(Result<[UInt8], TransportError>, String)] = [
            (
                .success([]),
                "asking for the SRV records of x: malformed answer: the message ends in the identifier at byte 0"
            ),
            (.success([0, 7, 0x81, 0x82] + [UInt8](repeating: 0, count: 8)), "the name server failed (SERVFAIL)"),
            (.failure(TransportError(.nameResolutionFailed, "no network")), "no network"),
        ]
        for (answer, message) in answers {
            let server = NameServer(answer)
            server.open()
            let error = await error(SRVSearch("x") { server.search($0) })
            #expect(error?.code == .nameResolutionFailed)
            #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
        }
    }

    @Test(arguments: ["", "a\0b"])
    func anInvalidNameIsNotAskedFor(name: String) {
        guard case .failure(let error) = unsafe systemSearchSRV(name) else {
            Issue.record("no error")
            return
        }
        #expect(error.message.contains("invalid name"))
    }
}
