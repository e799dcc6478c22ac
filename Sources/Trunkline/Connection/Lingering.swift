import TrunklineCore
package import TrunklineIO

/// A socket that we have finished with, kept until the peer has finished too, for one second at most.
///
/// Closing a socket with unread input makes the kernel send a reset, which can destroy what the peer has not read yet
/// of our last frames. So the input is read and dropped until its end.
///
/// Sendable although it is not checked: it lives on one loop, and its handler methods are called there only.
package final class Lingering: TransportHandler, TimerTarget, @unchecked Sendable {
    private let transport: any Transport
    private let executor: any EventLoop
    private var timer: LoopTimer?
    /// Keeps itself alive until it is done: nobody else does.
    private var itself: Lingering?

    static let limit: Duration = .seconds(1)

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

    package func transport(_ id: UInt64, did event: TransportEvent) { readToEnd() }

    package func timerFired() { finish() }

    private func readToEnd() {
        // Bounded, so that a peer that sends without end does not keep the loop from its timers, this one's among them.
        for _ in 0..<64 where itself != nil {
            let outcome = unsafe withUnsafeTemporaryAllocation(byteCount: 16384, alignment: 8) {
                unsafe transport.read(into: $0)
            }
            switch outcome {
            case .bytes: continue
            case .wouldBlock: return
            case .end, .failed: finish()
            }
        }
    }

    private func finish() {
        transport.close()
        if let timer { executor.arm(timer, at: nil) }
        timer = nil
        itself = nil
    }
}
