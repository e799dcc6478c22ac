import Synchronization
import Testing
import Trunkline
import TrunklineIO

/// Greetings on real sockets.
@Suite(.serialized, .timeLimit(.minutes(1)))
struct LoopbackGreetingTests {
    /// A ping, a push and a reset come together. The answer to the ping cannot be written, so what is left is read, within
    /// the delivery of what was read before: that was delivered once more, ping and all, again and again.
    @Test(arguments: [EventLoops.Mechanism.epoll, .poll])
    func whatCameBeforeAResetIsHeardOnce(_ mechanism: EventLoops.Mechanism) async throws {
        let rude = try RawListener()
        let heard = Mutex<[Bytes]>([])
        let hasBegun = Mutex(false)
        let options = quickOptions { options in
            options.reconnecting.maximumAttempts = 1
            options.greeting.perform = { greeter in
                try await greeter.post(Request(type: 0x411, body: "login"))
                hasBegun.withLock { $0 = true }
                while true {
                    let frame = try await greeter.nextFrame()
                    heard.withLock { $0.append(frame.body) }
                }
            }
        }
        let codec = FrameLayout.standard.roles(ping: 1, pong: 3, push: 2)
        let client = Client(
            to: .host("127.0.0.1", port: rude.port),
            speaking: codec,
            options: options,
            on: EventLoops(count: 1, mechanism: mechanism)
        )
        let connecting = client.start(ask("never sent"))
        let reset = rude.acceptToReset()
        while !hasBegun.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(1)) }
        // The loop is held up until all has come.
        let isHeld = Mutex(false)
        let isOver = Mutex(false)
        let holding = Task(executorPreference: client.executor) {
            isHeld.withLock { $0 = true }
            while !isOver.withLock({ $0 }) { sleepShortly() }
        }
        while !isHeld.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(1)) }
        reset([0, 0, 0, 1] + [0, 0, 0, 0] + [0, 0, 0, 0] + [0, 0, 0, 2] + [0, 0, 0, 0] + [0, 0, 0, 1] + [0x78])
        for _ in 0..<20 { sleepShortly() }
        isOver.withLock { $0 = true }
        await holding.value
        let error = await failure(of: connecting)
        #expect(error?.code == .unavailable && error?.fate == .notSent)
        let all = heard.withLock { $0 }
        #expect(all == ["x"], "\(String(describing: error))")
        await client.close()
    }
}
