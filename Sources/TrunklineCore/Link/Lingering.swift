/// Keeps a socket after its close until the peer has closed too, for at most one second. `close()` returns before that.
///
/// Closing a socket with unread input makes the kernel send a reset, which can destroy bytes that the peer has not read
/// yet. So the input is read and discarded until its end. Bytes that TLS holds are not in the kernel yet: for these the
/// limit is 30 seconds. Unchecked Sendable: it lives on one loop, and its methods are called there only.
package final class Lingering: TransportHandler, TimerTarget, @unchecked Sendable {
    private let transport: any Transport
    private let secured: SecuredTransport?
    private let executor: any EventLoop
    private var timer: LoopTimer?
    /// Keeps this object alive until it is done.
    private var itself: Lingering?

    private var isPeerDone = false
    private var rounds = 0
    private var wasHolding = false

    static let limit: Duration = .seconds(1)
    private static let maximumRounds = 30
    private static let readSize = 16 * 1024

    /// Call this on `loop`.
    package static func close(_ transport: any Transport, on loop: any EventLoop) {
        // Nothing tells the end of datagrams, and unread ones make no reset.
        if transport.exchangesDatagrams { return transport.close() }
        transport.finishWriting()
        let lingering = Lingering(transport, loop)
        lingering.itself = lingering
        let timer = LoopTimer(target: lingering)
        lingering.timer = timer
        loop.arm(timer, at: loop.now.advanced(by: limit))
        transport.handler = lingering
        // After the end of sending a socket is always writable: the loop would spin until the peer has closed.
        transport.awaitsWritable = false
        transport.isReading = true
        lingering.readToEnd()
    }

    private init(_ transport: any Transport, _ loop: any EventLoop) {
        self.transport = transport
        secured = transport as? SecuredTransport
        executor = loop
    }

    private var isHoldingBytes: Bool { secured?.isHoldingBytes ?? false }

    package func transport(_ id: UInt64, did event: TransportEvent) {
        if isPeerDone { finishUnlessHolding() } else { readToEnd() }
    }

    package func timerFired() {
        let isHolding = isHoldingBytes
        guard isHolding || wasHolding, rounds < Self.maximumRounds, let timer else { return finish() }
        rounds += 1
        wasHolding = isHolding
        executor.arm(timer, at: executor.now.advanced(by: Self.limit))
    }

    private func readToEnd() {
        // Bounded: a peer that sends without end must not keep the loop from its timers, including this one.
        for _ in 0..<64 where itself != nil {
            let outcome = unsafe withUnsafeTemporaryAllocation(byteCount: Self.readSize, alignment: 8) {
                unsafe transport.read(into: $0)
            }
            switch outcome {
            // This was all there is, or TLS has reached its limit for one turn: another event follows if there is more.
            case .bytes(let count): if count < Self.readSize { return }
            case .wouldBlock: return
            case .end, .failed:
                isPeerDone = true
                transport.isReading = false
                return finishUnlessHolding()
            }
        }
    }

    /// A peer that sends no more may still read.
    private func finishUnlessHolding() {
        if isHoldingBytes { transport.awaitsWritable = true } else { finish() }
    }

    private func finish() {
        transport.close()
        if let timer { executor.arm(timer, at: nil) }
        timer = nil
        itself = nil
    }
}
