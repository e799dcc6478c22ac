import Synchronization
import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO

#if os(Linux)
    import CTrunkline
#endif
#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// An event loop when system calls fail.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct ReadinessTests {}

extension ReadinessTests {
    /// An actor on a separate event loop, which has one listener or one socket.
    private actor Owner: TransportHandler, ListenerHandler {
        nonisolated let loop: SocketEventLoop
        nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

        private var listener: SocketListener?
        private var transport: SocketTransport?
        /// The number of calls of `accept`.
        private(set) var calls = 0
        private var awaitedCalls = 0
        private(set) var acceptedCount = 0
        private(set) var failures: [TransportError] = []
        private var waiter: CheckedContinuation<Void, Never>?

        init() throws { loop = try #require(EventLoops(count: 1).next() as? SocketEventLoop) }

        /// Listens on a socket on which `accept` fails with each of `codes` in turn, and then works.
        func listen(failing codes: [Int32]) throws(TransportError) -> SocketAddress {
            let listener = try SocketListener(
                id: loop.newID(),
                loop: loop,
                address: .loopback(port: 0),
                handler: self,
                pause: .seconds(3600),
                accepting: { [unowned self] descriptor in
                    assumeIsolated { owner in
                        owner.calls += 1
                        if owner.calls == owner.awaitedCalls { owner.tell() }
                        guard owner.calls <= codes.count else { return acceptSocket(descriptor) }
                        errno = codes[owner.calls - 1]
                        return -1
                    }
                }
            )
            loop.register(listener, id: listener.id)
            self.listener = listener
            return listener.address
        }

        /// Reads from `descriptor` and records an error.
        func read(_ descriptor: Int32) {
            let transport = SocketTransport(id: loop.newID(), loop: loop, accepted: descriptor)
            transport.handler = self
            loop.register(transport, id: transport.id)
            self.transport = transport
            transport.isReading = true
        }

        func connect(to address: SocketAddress) {
            transport = loop.connect(to: address, options: SocketOptions(), handler: self) as? SocketTransport
        }

        /// Waits until a connection is accepted or reading has failed.
        func news() async {
            guard acceptedCount == 0, failures.isEmpty else { return }
            await withCheckedContinuation { waiter = $0 }
        }

        /// Waits until `accept` has been called `count` times.
        func called(_ count: Int) async {
            guard calls < count else { return }
            awaitedCalls = count
            await withCheckedContinuation { waiter = $0 }
        }

        /// Waits for a turn of the loop, in which it polls its sockets.
        func turn() async {
            await withCheckedContinuation { continuation in
                loop.scheduleInNextTurn(LoopClosure { continuation.resume() })
            }
        }

        /// Ends the listener's pause.
        func endPause() { listener?.timerFired() }

        func end() {
            listener?.close()
            transport?.close()
        }

        private func tell() {
            waiter?.resume()
            waiter = nil
        }

        nonisolated func accepted(_ transport: sending any Transport) -> any TransportHandler {
            assumeIsolated { owner in
                owner.acceptedCount += 1
                owner.tell()
            }
            return self
        }

        nonisolated func transport(_ id: UInt64, did event: TransportEvent) {
            assumeIsolated { owner in
                guard case .readable = event, let transport = owner.transport else { return }
                var bytes = [UInt8](repeating: 0, count: 16)
                let outcome = unsafe bytes.withUnsafeMutableBytes { unsafe transport.read(into: $0) }
                guard case .failed(let error) = outcome else { return }
                owner.failures.append(error)
                owner.tell()
            }
        }
    }

    /// Regression: the connection stays in the backlog, so the listener stays readable. It called `accept` again at
    /// once, as long as there was no free descriptor.
    @Test func aListenerWithoutDescriptorsPauses() async throws {
        let (owner, client) = (try Owner(), try Owner())
        let codes = [EMFILE, ENFILE, ENOBUFS, ENOMEM, EIO]
        await client.connect(to: try await owner.listen(failing: codes))
        for count in 1...codes.count {
            await owner.called(count)
            for _ in 0..<10 { await owner.turn() }
            #expect(await owner.calls == count)
            await owner.endPause()
        }
        await owner.news()
        #expect(await owner.acceptedCount == 1)
        await owner.end()
        await client.end()
    }

    /// On Linux `accept` reports errors of the connection that it removed from the queue. Regression: all
    /// others had to wait.
    @Test func aBrokenConnectionDoesNotDelayOthers() async throws {
        let (owner, client) = (try Owner(), try Owner())
        var codes = [
            EINTR, ECONNABORTED, EPROTO, ENOPROTOOPT, EOPNOTSUPP, ENETDOWN, ENETUNREACH, EHOSTDOWN, EHOSTUNREACH,
        ]
        #if os(Linux)
            codes.append(ENONET)
        #endif
        await client.connect(to: try await owner.listen(failing: codes))
        await owner.news()
        #expect(await owner.calls > codes.count)
        #expect(await owner.acceptedCount == 1)
        await owner.end()
        await client.end()
    }

    #if os(Linux)
        /// A descriptor that `epoll_ctl` rejects: that of a regular file.
        private func refused() throws -> Int32 {
            let descriptor = unsafe open("/proc/self/exe", O_RDONLY | O_CLOEXEC)
            try #require(descriptor >= 0)
            return descriptor
        }

        @Test func aPollerReportsADescriptorThatItCannotWatch() throws {
            let descriptor = try refused()
            defer { closeDescriptor(descriptor) }
            let poller = try EpollPoller()
            #expect(poller.watch(descriptor, id: 7, reading: true, writing: false) == EPERM)
            #expect(poller.watch(descriptor, id: 7, reading: true, writing: true) == EPERM)
            #expect(poller.watch(descriptor, id: 7, reading: false, writing: false) == 0)
        }

        /// `epoll_wait` reports at most 256 descriptors. Before timers fire, all of them must be known.
        @Test(arguments: [EventLoops.Mechanism.epoll, .poll])
        func aLookFindsEveryReadyDescriptor(_ mechanism: EventLoops.Mechanism) throws {
            let poller = try mechanism.makePoller()
            let descriptors = (0..<600).map { _ in trunkline_eventfd() }
            defer { for descriptor in descriptors { closeDescriptor(descriptor) } }
            for (index, descriptor) in descriptors.enumerated() {
                wake(descriptor)
                try #require(poller.watch(descriptor, id: UInt64(index + 1), reading: true, writing: false) == 0)
            }
            var ready: [Readiness] = []
            for _ in 0..<3 {
                ready = []
                poller.look(into: &ready)
                #expect(Set(ready.map(\.id)).count == descriptors.count)
            }
            for (index, descriptor) in descriptors.enumerated() {
                _ = poller.watch(descriptor, id: UInt64(index + 1), reading: false, writing: false)
            }
            ready = []
            poller.look(into: &ready)
            #expect(ready.isEmpty)
        }

        /// Regression: this trapped in debug builds. In other builds no error was reported, and the owner
        /// waited for ever.
        @Test func aSocketThatCannotBeWatchedFails() async throws {
            let owner = try Owner()
            await owner.read(try refused())
            await owner.news()
            let error = try #require(await owner.failures.first)
            #expect(error.code == .system && error.errno == EPERM && error.message.hasPrefix("watching a socket"))
            await owner.end()
        }
    #endif
}

/// The timers of an event loop that arms many timers and disarms most of them.
@Suite struct TimerQueueTests {}

extension TimerQueueTests {
    private final class Target: TimerTarget {
        func timerFired() {}
    }

    private func instant(_ seconds: Int64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }

    /// Regression: every closed client left its timers in the queue until their deadlines, 30 s later.
    @Test func disarmedTimersAreRemoved() {
        var queue = TimerQueue()
        let target = Target()
        let kept = (0..<100).map { number in
            let timer = LoopTimer(target: target)
            queue.arm(timer, at: instant(Int64(100 + number)))
            return timer
        }
        for number in 0..<10_000 {
            let timer = LoopTimer(target: target)
            queue.arm(timer, at: instant(Int64(30 + number % 7)))
            queue.arm(timer, at: nil)
        }
        #expect(queue.armedCount == 100 && queue.entryCount <= 2 * 100 + 64)
        for timer in kept { queue.arm(timer, at: nil) }
        #expect(queue.armedCount == 0 && queue.entryCount <= 64)
    }

    /// Timers are armed, disarmed and armed again at random. Each armed timer fires once, when it is due.
    @Test(arguments: 0..<50 as Range<UInt64>)
    func armedTimersFireOnceWhenTheyAreDue(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var queue = TimerQueue()
        let target = Target()
        let timers = (0..<200).map { _ in LoopTimer(target: target) }
        var expected: [Int: Int64] = [:]
        var now: Int64 = 0
        for _ in 0..<5000 {
            let index = Int.random(in: timers.indices, using: &random)
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<4:
                let deadline = now + Int64.random(in: 0..<1000, using: &random)
                queue.arm(timers[index], at: instant(deadline))
                expected[index] = deadline
            case 4..<9:
                queue.arm(timers[index], at: nil)
                expected[index] = nil
            default:
                now += Int64.random(in: 0..<50, using: &random)
                let due = Set(expected.filter { $0.value <= now }.keys)
                var fired: Set<Int> = []
                while let timer = queue.popDue(at: instant(now)) {
                    fired.insert(timers.firstIndex { $0 === timer } ?? -1)
                }
                #expect(fired == due)
                for index in due { expected[index] = nil }
            }
            #expect(queue.armedCount == expected.count)
            #expect(queue.entryCount <= 2 * expected.count + 65)
        }
    }
}
