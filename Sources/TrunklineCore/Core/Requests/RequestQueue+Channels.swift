/// Requests that wait for their channels. They are parked behind others of their channels, so that those of other
/// channels pass them.
extension RequestQueue {
    struct Parking: EmptyInitializable, Sendable {
        var lines: [UInt64: Deque<Slot>] = [:]
        var channels: [RequestID: UInt64] = [:]
        var removedCount = 0
        var session: SessionID?
    }

    mutating func beginParking(on session: SessionID) {
        guard parking.session != session || !exclusives.isEmpty else { return }
        unparkAll()
        parking.session = session
    }

    func hasParked(_ channel: UInt64) -> Bool { !isWithoutParking && parking.lines[channel] != nil }

    mutating func popParked(_ channel: UInt64, where mayGo: (QueuedRequest) -> Bool) -> QueuedRequest? {
        guard let request = parking.lines[channel]?.first?.request, mayGo(request) else { return nil }
        _ = parking.lines[channel]?.popFirst()
        dropLeft(ofLine: channel)
        parking.channels[request.id] = nil
        countOut(request.cost)
        return request
    }

    /// Parks the requests before it, unless a request must go out alone: then all go in their order, and the first one
    /// must be taken.
    mutating func popFirst(
        channel: (Frame) -> UInt64,
        mayGo: (UInt64, QueuedRequest) -> Bool
    ) -> QueuedRequest? {
        while let slot = popSlot() {
            guard let request = slot.request else { continue }
            let channel = channel(request.frame)
            if !exclusives.isEmpty {
                guard mayGo(channel, request) else {
                    slots.prepend(slot)
                    previousTurn = min(previousTurn, slot.turn - 1)
                    return nil
                }
                countOut(request.cost)
                return request
            }
            if parking.lines[channel] == nil, mayGo(channel, request) {
                countOut(request.cost)
                return request
            }
            previousTurn = min(previousTurn, slot.turn - 1)
            parking.lines[channel, default: Deque()].append(slot)
            parking.channels[request.id] = channel
        }
        return nil
    }

    mutating func unparkAll() {
        guard !isWithoutParking, !parking.channels.isEmpty else { return }
        var all: [Slot] = []
        for line in parking.lines.values {
            for index in 0..<line.count where line[index].request != nil { all.append(line[index]) }
        }
        for index in 0..<slots.count where slots[index].request != nil { all.append(slots[index]) }
        all.sort { $0.turn < $1.turn }
        (slots, parking) = (Deque(), Parking())
        for slot in all { slots.append(slot) }
        if let first = all.first { previousTurn = min(previousTurn, first.turn - 1) }
    }

    func parkedPlace(of turn: Turn, _ id: RequestID) -> (channel: UInt64, index: Int)? {
        guard let channel = parking.channels[id], let line = parking.lines[channel] else { return nil }
        // Turns ascend, unless requests were returned by an earlier link.
        var (low, high) = (0, line.count)
        while low < high {
            let middle = (low + high) / 2
            if line[middle].turn < turn { low = middle + 1 } else { high = middle }
        }
        if low < line.count, line[low].turn == turn { return (channel, low) }
        return (0..<line.count).first { line[$0].turn == turn }.map { (channel, $0) }
    }

    mutating func removeParked(_ turn: Turn, _ id: RequestID) -> QueuedRequest? {
        guard let place = parkedPlace(of: turn, id), let request = parking.lines[place.channel]?[place.index].request
        else { return nil }
        parking.lines[place.channel]?[place.index].request = nil
        parking.channels[id] = nil
        countOut(request.cost)
        dropLeft(ofLine: place.channel)
        // Otherwise those that have left would stay behind one that waits for ever.
        parking.removedCount += 1
        if parking.removedCount > parking.channels.count + 64 {
            parking.removedCount = 0
            for channel in parking.lines.keys { parking.lines[channel]?.removeAll { $0.request == nil } }
        }
        return request
    }

    /// A request is parked behind a line even if its channel is free, and an empty line would never move.
    private mutating func dropLeft(ofLine channel: UInt64) {
        while let first = parking.lines[channel]?.first, first.request == nil {
            _ = parking.lines[channel]?.popFirst()
        }
        if parking.lines[channel]?.isEmpty == true { parking.lines[channel] = nil }
    }
}
