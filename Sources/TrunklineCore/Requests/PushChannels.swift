/// The push streams of one client, on its event loop. Streams with a key are found by it; each of the others is asked
/// for every push.
struct PushChannels {
    private var others: [PushChannel] = []
    private var keyed: [PushKey: [PushChannel]] = [:]
    /// The channels whose full buffer suspends reading. May contain channels that no longer do.
    private var full: [PushChannel] = []
    private var fullNumbers: Set<UInt64> = []
    /// Malformed pushes without a known key that have not been reported to the channels with a key.
    private var malformedCount = 0
    /// By kind of stream. A push that several streams have dropped counts several times.
    private(set) var dropped: [String: Int] = [:]
    private var unreported: [String: Int] = [:]
    /// The pushes that entered the buffer of a stream, including those dropped later. It never decreases, because
    /// exporters report it as a counter.
    private(set) var deliveredCount = 0

    /// In the order of their creation, because the order of a dictionary differs between processes.
    var all: [PushChannel] {
        keyed.isEmpty ? others : (others + keyed.values.joined()).sorted { $0.number < $1.number }
    }

    var isEmpty: Bool { others.isEmpty && keyed.isEmpty }

    mutating func suspendReading() -> Bool {
        // Removes only from the end, so each channel is checked once.
        while let last = full.last, !last.suspendsReading { fullNumbers.remove(full.removeLast().number) }
        return !full.isEmpty
    }

    mutating func insert(_ channel: PushChannel) {
        // From the start, so that an exporter also has the zero before the first drop.
        note(0, channel.selection.name)
        if case .key(let key) = channel.selection {
            keyed[key, default: []].insert(channel)
        } else {
            others.insert(channel)
        }
    }

    mutating func remove(_ channel: PushChannel) {
        if case .key(let key) = channel.selection {
            keyed[key]?.remove(channel)
            if keyed[key]?.isEmpty == true { keyed[key] = nil }
        } else {
            others.remove(channel)
        }
    }

    mutating func removeAll() {
        let (dropped, deliveredCount) = (dropped, deliveredCount)
        self = PushChannels()
        (self.dropped, self.deliveredCount) = (dropped, deliveredCount)
    }

    /// Returns true if any channel must suspend reading now and did not before. `isSurplus`: as in `PushChannel.offer`.
    mutating func offer(_ pushes: [Frame], isSurplus: Bool, speaking codec: ProtocolCodec) -> Bool {
        var isNewlyFull = false
        for channel in others where offer(pushes, isSurplus, to: channel) { isNewlyFull = true }
        guard !keyed.isEmpty else { return isNewlyFull }
        let keys = codec.pushKeys
        for push in pushes {
            if let key = keys?.pushKey(of: push) {
                for channel in keyed[key] ?? [] where offer([push], isSurplus, to: channel) { isNewlyFull = true }
            } else if push.malformedReason != nil {
                malformedCount += 1
            }
        }
        return isNewlyFull
    }

    private mutating func offer(_ pushes: [Frame], _ isSurplus: Bool, to channel: PushChannel) -> Bool {
        let (isNewlyFull, taken, dropped) = channel.offer(pushes, isSurplus: isSurplus)
        if dropped > 0 { note(dropped, channel.selection.name) }
        deliveredCount += taken
        if isNewlyFull, fullNumbers.insert(channel.number).inserted { full.append(channel) }
        return isNewlyFull
    }

    private mutating func note(_ count: Int, _ stream: String) {
        let name = dropped.countedName(stream)
        dropped[name, default: 0] += count
        if count > 0 { unreported[name, default: 0] += count }
    }

    mutating func takeDropped() -> [(stream: String, count: Int)] {
        if unreported.isEmpty { return [] }
        return exchange(&unreported, with: [:]).sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// Done once for a batch, because there may be very many malformed pushes and channels with a key.
    mutating func yieldMalformed() {
        guard malformedCount > 0 else { return }
        for channel in all {
            if case .key = channel.selection { channel.noteMalformed(malformedCount) }
        }
        malformedCount = 0
    }
}

extension [PushChannel] {
    /// Streams that are created at the same time may arrive in another order than that of their numbers.
    fileprivate mutating func insert(_ channel: PushChannel) {
        var place = count
        while place > 0, self[place - 1].number > channel.number { place -= 1 }
        insert(channel, at: place)
    }

    fileprivate mutating func remove(_ channel: PushChannel) {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle].number < channel.number { low = middle + 1 } else { high = middle }
        }
        if low < count, self[low] === channel { remove(at: low) }
    }
}
