import TrunklineCore

/// One side of a simulated link. Deallocating it closes the side.
final class SimulatedTransport: Transport {
    private let link: SimulatedLink
    private let side: Side
    private let loop: SimulatedEventLoop

    init(_ link: SimulatedLink, _ side: Side, on loop: SimulatedEventLoop) {
        self.link = link
        self.side = side
        self.loop = loop
    }

    deinit {
        loop.perform { [link, side] in link.close(side) }
    }

    var id: UInt64 { link.transportID(side) }

    var handler: (any TransportHandler)? {
        get { link.end(side).handler }
        set {
            loop.preconditionIsCurrent()
            link.end(side).handler = newValue
        }
    }

    var exchangesDatagrams: Bool { link.carriesDatagrams }
    var localAddress: SocketAddress? { link.localAddress(side) }
    var remoteAddress: SocketAddress? { link.remoteAddress(side) }

    var isReading: Bool {
        get { link.end(side).isReading }
        set {
            loop.preconditionIsCurrent()
            link.end(side).isReading = newValue
            if newValue { link.network.attend(link, side) }
        }
    }

    var awaitsWritable: Bool {
        get { link.end(side).awaitsWritable }
        set {
            loop.preconditionIsCurrent()
            link.end(side).awaitsWritable = newValue
            if newValue { link.network.attend(link, side) }
        }
    }

    var exit: ProcessExit? { side == .client ? link.exit : nil }

    /// Acknowledgments are neither late nor lost.
    var isAcknowledged: Bool? {
        let pipe = link.pipes[side.rawValue]
        return pipe.underWay == 0 && pipe.unsent == 0 && !pipe.isBroken
    }

    var hasFailed: Bool { link.end(side).failure != nil }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome {
        loop.preconditionIsCurrent()
        return unsafe link.read(side, into: buffer)
    }

    func write(_ pieces: BytePieces) -> WriteOutcome {
        loop.preconditionIsCurrent()
        return unsafe link.write(side, pieces)
    }

    func finishWriting() {
        loop.preconditionIsCurrent()
        link.finishWriting(side)
    }

    func close() {
        loop.preconditionIsCurrent()
        link.close(side)
    }

    func reset() {
        loop.preconditionIsCurrent()
        link.reset(side)
    }
}
