/// A socket that we have finished with, kept until the peer has finished too, for one second at most. Nobody waits for that:
/// `close()` returns before.
///
/// Closing a socket with unread input makes the kernel send a reset, which can destroy what the peer has not read yet
/// of our last frames. So the input is read and dropped until its end. Bytes that TLS holds are in no kernel yet, which
/// would go on sending them: they have longer.
///
/// Sendable although it is not checked: it lives on one loop, and its handler methods are called there only.
package final class Lingering: TransportHandler, TimerTarget, @unchecked Sendable {
    private let transport: any Transport
    private let executor: any EventLoop
    private var timer: LoopTimer?
    /// Keeps itself alive until it is done: nobody else does.
    private var itself: Lingering?

    /// Whether the peer has finished.
    private var isPeerDone = false
    /// How often the time was over while TLS held bytes, or had held them the last time.
    private var rounds = 0
    private var wasHolding = false

    static let limit: Duration = .seconds(1)
    private static let maximumRounds = 30
    private static let readSize = 16 * 1024

    /// Ends our direction of `transport` and sees it off. To be called on `loop`.
    package static func close(_ transport: any Transport, on loop: any EventLoop) {
        transport.finishWriting()
        let lingering = Lingering(transport, loop)
        lingering.itself = lingering
        let timer = LoopTimer(target: lingering)
        lingering.timer = timer
        loop.arm(timer, at: loop.now.advanced(by: limit))
        transport.handler = lingering
        // A socket whose sending has ended is always writable: the loop would spin until the peer is done.
        transport.awaitsWritable = false
        transport.isReading = true
        lingering.readToEnd()
    }

    private init(_ transport: any Transport, _ loop: any EventLoop) {
        self.transport = transport
        executor = loop
    }

    package func transport(_ id: UInt64, did event: TransportEvent) {
        if isPeerDone { finishUnlessHolding() } else { readToEnd() }
    }

    package func timerFired() {
        let isHolding = transport.isHoldingBytes
        guard isHolding || wasHolding, rounds < Self.maximumRounds, let timer else { return finish() }
        rounds += 1
        wasHolding = isHolding
        executor.arm(timer, at: executor.now.advanced(by: Self.limit))
    }

    private func readToEnd() {
        // Bounded, so that a peer that sends without end does not keep the loop from its timers, this one's among them.
        for _ in 0..<64 where itself != nil {
            let outcome = unsafe withUnsafeTemporaryAllocation(byteCount: Self.readSize, alignment: 8) {
                unsafe transport.read(into: $0)
            }
            switch outcome {
            // Fewer than fit were all there is, or TLS had enough for one turn: there will be word of more.
            case .bytes(let count): if count < Self.readSize { return }
            case .wouldBlock: return
            case .end, .failed:
                isPeerDone = true
                transport.isReading = false
                return finishUnlessHolding()
            }
        }
    }

    /// A peer that says no more may still listen.
    private func finishUnlessHolding() {
        if transport.isHoldingBytes { transport.awaitsWritable = true } else { finish() }
    }

    private func finish() {
        transport.close()
        if let timer { executor.arm(timer, at: nil) }
        timer = nil
        itself = nil
    }
}
