import TrunklineCore

/// Each datagram is delivered alone, later than others or twice, or is lost.
extension SimulatedLink {
    private static let maximumUnread = 256

    func openDatagrams() {
        end(.client).phase = .open
        end(.client).outcome = .connected
        network.attend(self, .client)
    }

    func sendDatagrams(_ pieces: BytePieces, from side: Side) -> WriteOutcome {
        var count = 0
        for index in pieces.indices {
            let datagram = unsafe Array(pieces[index])
            count += datagram.count
            network.note(.write, id, datagram.count)
            guard passesMiddlebox(from: side), !network.random.happens(traits.datagramLoss) else {
                network.note(.lost, id, side.rawValue)
                continue
            }
            sendDatagram(.datagram(datagram), from: side)
            if network.random.happens(traits.datagramDuplication) { sendDatagram(.datagram(datagram), from: side) }
        }
        return .bytes(count)
    }

    private func sendDatagram(_ packet: Packet, from side: Side) {
        let delay = network.random.number(in: traits.latency)
        network.push(
            .arrival(packet, link: id, at: side.other),
            at: network.now.advanced(by: .nanoseconds(delay))
        )
    }

    func arriveAsDatagram(_ packet: Packet, at side: Side) {
        if case .end = packet {
            end(side).isDeserted = true
            if end(side).isGone { network.remove(self) } else { network.attend(self, side) }
            return
        }
        guard !isVanished, !isCut, !isStranded else { return network.note(.lost, id, side.rawValue) }
        network.note(.packet, id, side.rawValue, detail: "datagram")
        if side == .server, !reachServer() { return }
        switch packet {
        case .datagram(let datagram):
            guard end(side).phase == .open, end(side).datagrams.count < Self.maximumUnread else { return }
            end(side).datagrams.append(datagram)
        case .unreachable:
            let reason = "no server receives datagrams at \(end(.server).address)"
            fail(side, TransportError(.refused, errno: 111, reason))
        case .connect, .accept, .refuse, .data, .end, .reset: break
        }
        network.attend(self, side)
    }

    /// Opens the end of the server for the first datagram. Returns false if no server receives it.
    private func reachServer() -> Bool {
        guard !network.faults.swallows(serverHost) else { return false }
        switch network.answer(to: end(.server).address, datagrams: true) {
        case .failure:
            if end(.client).phase == .open { sendDatagram(.unreachable, from: .server) }
            return false
        case .success(let port):
            guard end(.server).isGone else { return true }
            guard !end(.server).isDeserted else { return false }
            end(.server).phase = .open
            end(.server).datagrams.removeAll()
            port.add(self)
            return true
        }
    }

    func readDatagram(_ side: Side, into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome {
        if let failure = end(side).failure { return .failed(failure) }
        while let datagram = end(side).datagrams.popFirst() {
            guard datagram.count <= buffer.count else { continue }
            unsafe buffer.copyBytes(from: datagram)
            network.bytesDelivered += datagram.count
            network.note(.read, id, datagram.count)
            return .bytes(datagram.count)
        }
        return end(side).isDeserted && side == .server ? .end : .wouldBlock
    }

    /// Only the server of a client that has gone is told, so that nothing is left.
    func closeDatagrams(_ side: Side) {
        guard !end(side).isGone else { return }
        network.note(.close, id, side.rawValue)
        end(side).phase = .closed
        (end(side).handler, end(side).outcome) = (nil, nil)
        end(side).datagrams.removeAll()
        if side == .client {
            sendDatagram(.end, from: .client)
        } else if end(.client).isGone, end(.server).isDeserted {
            network.remove(self)
        }
    }
}
