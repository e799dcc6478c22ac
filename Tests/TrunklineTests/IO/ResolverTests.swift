import Synchronization
import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// The resolver of real names: its threads, its queue, and which callers get an answer.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct ResolverTests {}

extension ResolverTests {
    /// Records look-ups, and holds their answers until it is opened.
    private final class Names: Sendable {
        private let state = Lock((asked: [String](), isOpen: false))

        var asked: [String] { state.withLock { $0.asked } }
        func open() { state.withLock { $0.isOpen = true } }
        func close() { state.withLock { $0 = ([], false) } }

        func lookUp(_ host: String, _ family: AddressFamily) -> NameLookup.Answer {
            state.withLock { $0.asked.append(host) }
            while !host.hasPrefix("local"), !state.withLock({ $0.isOpen }) { sleepShortly() }
            return .success([
                family == .ipv4 ? .loopback(port: 0) : .ipv6([UInt8](repeating: 1, count: 16), port: 0, scope: 0)
            ])
        }
    }

    /// Names that begin with "local" are those that this host knows itself.
    private func make(
        _ names: Names,
        threads: Int = 4,
        queued: Int = 1024,
        slowAfter: Duration = .seconds(3600)
    ) -> Resolver {
        Resolver(
            maximumThreads: threads,
            maximumQueued: queued,
            slowAfter: slowAfter,
            isLocal: { host, _ in host.hasPrefix("local") },
            lookUp: { names.lookUp($0, $1) }
        )
    }

    /// Collects answers.
    private final class Answers: Sendable {
        private let state = Lock([NameLookup.Answer]())
        func add(_ answer: NameLookup.Answer) { state.withLock { $0.append(answer) } }
        var all: [NameLookup.Answer] { state.withLock { $0 } }
    }

    /// Waits until `condition` is met, however long the machine takes.
    private func wait(until condition: () -> Bool) async throws {
        while !condition() { try await Task.sleep(for: .milliseconds(1)) }
    }

    @Test func aThousandCallersShareOneLookUp() async throws {
        let (names, answers) = (Names(), Answers())
        let resolver = make(names)
        for port in 1...1000 as ClosedRange<UInt16> {
            _ = resolver.resolve("db", port: port, family: .ipv4) { answers.add($0) }
        }
        try await wait { names.asked == ["db"] }
        names.open()
        try await wait { answers.all.count == 1000 }
        #expect(Set(answers.all) == Set((1...1000).map { .success([.loopback(port: $0)]) }))
        #expect(resolver.metrics.lookups == 1)
        #expect(resolver.metrics.peakThreads == 1)
        try await wait { resolver.metrics.threads == 0 }  // they end with the work
    }

    @Test func manyLookUpsUseFewThreads() async throws {
        let (names, answers) = (Names(), Answers())
        let resolver = make(names)
        for number in 0..<100 {
            for family in AddressFamily.allCases {
                _ = resolver.resolve("host\(number)", port: 1, family: family) { answers.add($0) }
            }
        }
        try await wait { names.asked.count == 4 }
        names.open()
        try await wait { answers.all.count == 200 }
        #expect(resolver.metrics.lookups == 200)
        #expect(4...4 + Resolver.localThreads ~= resolver.metrics.peakThreads)
    }

    // MARK: Names that hang

    @Test func namesOfThisHostDoNotWaitBehindNamesThatHang() async throws {
        let (names, answers) = (Names(), Answers())
        let resolver = make(names)
        for number in 0..<100 {
            for family in AddressFamily.allCases { _ = resolver.resolve("\(number)", port: 1, family: family) { _ in } }
        }
        try await wait { names.asked.count == 4 }
        for port in 1...10 as ClosedRange<UInt16> {
            _ = resolver.resolve("local\(port)", port: port, family: .ipv4) { answers.add($0) }
        }
        // The other names are not answered yet.
        try await wait { answers.all.count == 10 }
        #expect(names.asked.filter { !$0.hasPrefix("local") }.count == 4)
        names.open()
        try await wait { resolver.metrics.threads == 0 }
        #expect(resolver.metrics.lookups == 210)
    }

    @Test func aLookUpThatWaitsForAThreadSaysSo() async throws {
        let names = Names()
        let resolver = make(names, threads: 1)
        let first = resolver.resolve("a", port: 1, family: .ipv4) { _ in }
        try await wait { names.asked == ["a"] }
        let second = resolver.resolve("b", port: 1, family: .ipv4) { _ in }
        let message = "no name server was asked, because one other look-up occupied the threads of the resolver"
        #expect(resolver.obstacle(of: first) == nil)
        #expect(resolver.obstacle(of: second) == message)
        names.open()
        try await wait { resolver.metrics.threads == 0 }
        #expect(resolver.obstacle(of: second) == nil)
    }

    /// Regression: "0 other lookups occupied the threads of the resolver".
    @Test func aLookUpWhoseThreadHasNotRunSaysSo() async throws {
        let (isHeld, isAsked) = (Lock(true), Lock(false))
        let resolver = Resolver(
            maximumThreads: 4,
            maximumQueued: 10,
            isLocal: { _, _ in
                isAsked.withLock { $0 = true }
                while isHeld.withLock({ $0 }) { sleepShortly() }
                return false
            },
            lookUp: { _, _ in .success([]) }
        )
        let lookup = resolver.resolve("a", port: 1, family: .ipv4) { _ in }
        try await wait { isAsked.withLock { $0 } }
        let message = "no name server was asked, because the thread for the look-up had not run yet"
        #expect(resolver.obstacle(of: lookup) == message)
        isHeld.withLock { $0 = false }
        try await wait { resolver.metrics.threads == 0 }
        #expect(resolver.obstacle(of: lookup) == nil)
    }

    @Test func theErrorOfAnAttemptSaysThatItsLookUpWaitedForAThread() async throws {
        let names = Names()
        let loops = EventLoops(resolvingBy: make(names, threads: 1))
        let blocker = loops.next().resolve("a", port: 1, family: .ipv4) { _ in }
        try await wait { names.asked == ["a"] }
        let options = quickOptions {
            $0.connecting.timeout = .milliseconds(100)
            $0.reconnecting.maximumAttempts = 1
        }
        try await withClient(to: .host("b", port: 1), speaking: .standard, options: options, on: loops) { client in
            let error = await failure { () throws(ClientError) in try await client.connect() }
            let cause = try #require(error?.cause as? TransportError)
            #expect(cause.code == .nameResolutionFailed)
            #expect(cause.message.contains("no name server was asked"))
        }
        names.open()
        blocker.cancel()
    }

    /// Names that were slow before leave threads for names that were not.
    @Test func slowNamesOccupyHalfOfTheThreads() async throws {
        let names = Names()
        let resolver = make(names, slowAfter: .zero)  // every name that has been looked up is slow
        names.open()
        let slow = ["a", "b", "c", "d", "e", "f"]
        for name in slow { _ = resolver.resolve(name, port: 1, family: .ipv4) { _ in } }
        try await wait { resolver.metrics.lookups == 6 && resolver.metrics.threads == 0 }
        names.close()
        for name in slow { _ = resolver.resolve(name, port: 1, family: .ipv4) { _ in } }
        _ = resolver.resolve("x", port: 1, family: .ipv4) { _ in }
        _ = resolver.resolve("y", port: 1, family: .ipv4) { _ in }
        try await wait { Set(names.asked).isSuperset(of: ["x", "y"]) && names.asked.count == 4 }
        names.open()
        try await wait { resolver.metrics.threads == 0 }
        #expect(resolver.metrics.lookups == 14)
    }

    @Test func aCancelledQuestionOfAnyKindIsNotLookedUp() async throws {
        let names = Names()
        let resolver = make(names, threads: 1)
        _ = resolver.resolve("a", port: 1, family: .ipv4) { _ in }
        try await wait { names.asked == ["a"] }
        let others = (0..<1000).map { resolver.resolve("b\($0)", port: 1, family: .ipv4) { _ in } }
        for other in others { resolver.cancel(other) }
        names.open()
        try await wait { resolver.metrics.threads == 0 }
        #expect(names.asked == ["a"])
    }

    @Test(arguments: [
        ("127.0.0.1 localhost\n", "localhost", true, false),
        ("::1\tip6-localhost LOCALHOST\r\n", "localhost", false, true),
        ("10.0.0.7 db.example db # db2", "DB", true, false),
        ("10.0.0.7 db.example db # db2", "db2", false, false),
        ("# 10.0.0.7 db", "db", false, false),
        ("10.0.0.7 db\nfd00::7 db", "db", true, true),
        ("fe80::1%lo0 db", "db", false, true),
        ("10.0.0.7 dbx", "db", false, false),
        ("db db", "db", false, false),
        ("db", "db", false, false),
        ("", "", false, false),
    ])
    func namesInTheHostsFileAreFound(_ text: String, _ host: String, _ four: Bool, _ six: Bool) {
        #expect(hostsFile(Array(text.utf8), has: host, .ipv4) == four)
        #expect(hostsFile(Array(text.utf8), has: host, .ipv6) == six)
    }

    @Test func addressesInAnyFormNeedNoNameServer() {
        for family in AddressFamily.allCases {
            for host in ["127.1", "10.0.0.1", "0x7f000001", "fe80::1"] { #expect(isKnownToThisHost(host, family)) }
            for host in ["nobody.invalid", "", "a\u{0}b"] { #expect(!isKnownToThisHost(host, family)) }
        }
    }

    @Test func theQueueIsBounded() async throws {
        let (names, answers) = (Names(), Answers())
        let resolver = make(names, threads: 1, queued: 2)
        // One after the other: two threads may classify the names.
        _ = resolver.resolve("a", port: 1, family: .ipv4) { answers.add($0) }
        try await wait { names.asked == ["a"] }
        for host in ["b", "c", "d", "b"] { _ = resolver.resolve(host, port: 1, family: .ipv4) { answers.add($0) } }
        // "d" has no room; "b" is in the queue already.
        #expect(answers.all.count == 1)
        guard case .failure(let error) = answers.all[0] else { throw TransportError(.system, "no failure") }
        #expect(error.code == .nameResolutionFailed)
        names.open()
        try await wait { answers.all.count == 5 }
        // Two threads may classify the names, so their order is not certain.
        #expect(names.asked.sorted() == ["a", "b", "c"])
    }

    @Test func cancelledLookUpsAreNotStarted() async throws {
        let (names, answers) = (Names(), Answers())
        let resolver = make(names, threads: 1)
        let first = resolver.resolve("a", port: 1, family: .ipv4) { answers.add($0) }
        try await wait { names.asked == ["a"] }
        let second = resolver.resolve("b", port: 1, family: .ipv4) { answers.add($0) }
        _ = resolver.resolve("c", port: 3, family: .ipv4) { answers.add($0) }
        resolver.cancel(first)
        resolver.cancel(second)
        resolver.cancel(second)
        // Joins the look-up that is running although its only caller has cancelled it.
        _ = resolver.resolve("a", port: 4, family: .ipv4) { answers.add($0) }
        names.open()
        try await wait { answers.all.count == 2 }
        #expect(names.asked == ["a", "c"])
        #expect(answers.all == [.success([.loopback(port: 4)]), .success([.loopback(port: 3)])])
    }

    // MARK: On an event loop

    /// The answer of `loop` for `host`.
    private func resolve(_ host: String, _ family: AddressFamily, on loop: any EventLoop) async -> NameLookup.Answer {
        var lookup: NameLookup?
        let answer = await withCheckedContinuation { continuation in
            lookup = loop.resolve(host, port: 7, family: family) { answer in
                #expect(loop.isCurrent)
                continuation.resume(returning: answer)
            }
        }
        lookup?.cancel()  // keeps it alive until here
        return answer
    }

    @Test func literalsNeedNoLookUp() async throws {
        let loop = Mechanism.epoll.loops.next()
        #expect(await resolve("10.1.2.3", .ipv4, on: loop) == .success([.ipv4([10, 1, 2, 3], port: 7)]))
        #expect(await resolve("10.1.2.3", .ipv6, on: loop) == .success([]))
        #expect(
            await resolve("::", .ipv6, on: loop)
                == .success([.ipv6([UInt8](repeating: 0, count: 16), port: 7, scope: 0)])
        )
    }

    @Test func localhostIsKnownOnEveryMachine() async throws {
        let loop = Mechanism.epoll.loops.next()
        let four = await resolve("localhost", .ipv4, on: loop)
        let six = await resolve("localhost", .ipv6, on: loop)
        let addresses = [four, six].flatMap { (try? $0.get()) ?? [] }
        #expect(!addresses.isEmpty)
        #expect(addresses.allSatisfy { $0.port == 7 })
    }

    @Test(arguments: ["nobody.invalid", "", "a\u{0}b", String(repeating: "x", count: 5000)])
    func anUnknownNameIsAnError(_ host: String) async throws {
        let loop = Mechanism.epoll.loops.next()
        for family in AddressFamily.allCases {
            guard case .failure(let error) = await resolve(host, family, on: loop) else {
                Issue.record("\(host) has addresses")
                continue
            }
            #expect(error.code == .nameResolutionFailed)
        }
    }

    @Test func aReleasedOrCancelledLookUpGetsNoAnswer() async throws {
        let (names, answers) = (Names(), Answers())
        let loop = EventLoops(resolvingBy: make(names)).next()
        var kept: NameLookup? = loop.resolve("db", port: 1, family: .ipv4) { answers.add($0) }
        _ = loop.resolve("db", port: 2, family: .ipv4) { answers.add($0) }
        let cancelled = loop.resolve("db", port: 3, family: .ipv4) { answers.add($0) }
        cancelled.cancel()
        names.open()
        try await wait { !answers.all.isEmpty }
        try await Task.sleep(for: .milliseconds(20))
        #expect(answers.all == [.success([.loopback(port: 1)])])
        #expect(kept != nil)
        kept = nil
    }
}
