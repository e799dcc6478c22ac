import TrunklineCore

extension SimulatedLink {
    func read(_ side: Side, into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome {
        if carriesDatagrams { return unsafe readDatagram(side, into: buffer) }
        let pipe = peer(of: side).rawValue
        if let failure = end(side).failure { return .failed(failure) }
        guard end(side).phase == .open else { return .wouldBlock }
        if pipes[pipe].isAtEnd {
            network.note(.end, id, side.rawValue)
            return .end
        }
        let most = min(pipes[pipe].arrived, buffer.count)
        guard most > 0 else { return .wouldBlock }
        let count = network.random.part(of: most, probability: traits.fragmentation)
        unsafe pipes[pipe].read(count, into: buffer)
        network.bytesDelivered += count
        network.note(.read, id, count)
        pump(peer(of: side))  // the window has opened
        network.attend(self, peer(of: side))
        return .bytes(count)
    }

    func write(_ side: Side, _ pieces: BytePieces) -> WriteOutcome {
        if let failure = end(side).failure { return .failed(failure) }
        guard end(side).phase == .open else { return .wouldBlock }
        if carriesDatagrams { return unsafe sendDatagrams(pieces, from: side) }
        if pipes[side.rawValue].isFinished { return .failed(TransportError(.system, errno: 32, "writing has ended")) }
        let offered = unsafe pieces.reduce(0) { $0 + $1.count }
        guard offered > 0 else { return .bytes(0) }
        let room = pipes[side.rawValue].room(traits)
        guard room > 0 else { return .wouldBlock }
        let taken = network.random.part(of: min(offered, room), probability: traits.fragmentation / 2)
        var rest = taken
        for index in pieces.indices where rest > 0 {
            let count = unsafe min(rest, pieces[index].count)
            unsafe pipes[side.rawValue].append(pieces[index].prefix(count))
            rest -= count
        }
        network.note(.write, id, taken)
        pump(side)
        return .bytes(taken)
    }

    func finishWriting(_ side: Side) {
        if carriesDatagrams { return }
        guard end(side).phase == .open, end(side).failure == nil, !pipes[side.rawValue].isFinished else { return }
        network.note(.finish, id, side.rawValue)
        pipes[side.rawValue].finish()
        pump(side)
    }

    /// Closes cleanly, or with a reset if bytes are unread, as Linux does.
    func close(_ side: Side) {
        if carriesDatagrams { return closeDatagrams(side) }
        switch end(side).phase {
        case .absent, .closed: return
        case .connecting: reset(side)
        case .open:
            if pipes[peer(of: side).rawValue].arrived > 0 { return reset(side) }
            network.note(.close, id, side.rawValue)
            if end(side).failure == nil {
                pipes[side.rawValue].finish()
                pump(side)
            }
            leave(side)
        }
    }

    func reset(_ side: Side) {
        if carriesDatagrams { return closeDatagrams(side) }
        guard !end(side).isGone else { return }
        network.note(.reset, id, side.rawValue)
        if end(side).failure == nil, !end(side.other).isGone {
            pipes[side.rawValue].tearDown()
            send(.reset, from: side)
        }
        leave(side)
    }

    private func leave(_ side: Side) {
        end(side).phase = .closed
        end(side).handler = nil
        end(side).outcome = nil
        if end(side.other).isGone { network.remove(self) }
    }

    func isReadable(_ side: Side) -> Bool {
        if carriesDatagrams {
            let end = end(side)
            return end.phase == .open
                && (end.failure != nil || !end.datagrams.isEmpty || side == .server && end.isDeserted)
        }
        let incoming = peer(of: side).rawValue
        return end(side).phase == .open
            && (end(side).failure != nil || pipes[incoming].arrived > 0 || pipes[incoming].isAtEnd)
    }

    func isWritable(_ side: Side) -> Bool {
        end(side).phase == .open && (end(side).failure != nil || pipes[side.rawValue].room(traits) > 0)
    }

    func hasNews(for side: Side) -> Bool {
        let end = end(side)
        return end.handler != nil
            && (end.outcome != nil || end.isSecuring || end.isReading && isReadable(side)
                || end.awaitsWritable && isWritable(side))
    }

    func tell(_ side: Side) {
        if end(side).isSecuring {
            end(side).isSecuring = false
            end(side).handler?.transport(transportID(side), did: .securing)
        }
        if let outcome = end(side).outcome.take() {
            if case .connected = outcome {
                network.note(.connected, id)
            } else {
                network.note(.connectFailed, id)
            }
            end(side).handler?.transport(transportID(side), did: outcome)
        }
        if end(side).isReading, isReadable(side) {
            end(side).handler?.transport(transportID(side), did: .readable)
        }
        if end(side).awaitsWritable, isWritable(side) {
            end(side).handler?.transport(transportID(side), did: .writable)
        }
    }

    /// The client of a Unix socket has no address.
    func localAddress(_ side: Side) -> SocketAddress? {
        guard end(side).phase == .open, end(side).address != .unix(path: "") else { return nil }
        return address(side)
    }

    func remoteAddress(_ side: Side) -> SocketAddress? {
        guard end(side).phase == .open, end(side.other).address != .unix(path: "") else { return nil }
        return address(side.other)
    }

    func transportID(_ side: Side) -> UInt64 { id * 2 + UInt64(side.rawValue) }
}
