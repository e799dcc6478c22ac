/// The push streams of one client, on its event loop. Streams with a key are found by it; each of the others is asked
/// for every push.
struct PushChannels {
    /// The channels without a key, in the order of their creation.
    private var others: [PushChannel] = []
    private var keyed: [PushKey: [PushChannel]] = [:]
    /// The channels whose full buffer suspends reading. May contain channels that no longer do.
    private var full: [PushChannel] = []
    /// The numbers of the channels in `full`.
    private var fullNumbers: Set<UInt64> = []
    /// The number of malformed pushes without a known key that have not been reported to the channels with a key.
    private var malformedCount = 0
    /// The pushes that streams have dropped because their buffer was full, by kind of stream. A push that several streams
    /// have dropped counts several times.
    private(set) var dropped: [String: Int] = [:]
    /// Those of `dropped` that have not been reported.
    private var unreported: [String: Int] = [:]
    /// The number of pushes that entered the buffer of a stream, including those that it has dropped later. It never
    /// decreases, because exporters report it as a counter.
    private(set) var deliveredCount = 0

    /// All channels, in the order of their creation, because the order of a dictionary differs between processes.
    var all: [PushChannel] {
        keyed.isEmpty ? others : (others + keyed.values.joined()).sorted { $0.number < $1.number }
    }

    var isEmpty: Bool { others.isEmpty && keyed.isEmpty }

    /// Whether any of the channels suspends reading.
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

    /// Offers pushes to the channels that receive them. Returns true if any of them must suspend reading now and did not
    /// before.
    ///
    /// - Parameter isSurplus: Whether a full buffer that suspends reading drops the pushes.
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

    /// Removes and returns what has been dropped since the last call, in a fixed order.
    mutating func takeDropped() -> [(stream: String, count: Int)] {
        if unreported.isEmpty { return [] }
        return exchange(&unreported, with: [:]).sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// Notes malformed pushes in the channels with a key. Done once for a batch, because there may be very many of
    /// both.
    mutating func yieldMalformed() {
        guard malformedCount > 0 else { return }
        for channel in all {
            if case .key = channel.selection { channel.noteMalformed(malformedCount) }
        }
        malformedCount = 0
    }
}

extension [PushChannel] {
    /// Inserts a channel in the order of the numbers. Streams that are created at the same time may arrive in another.
    fileprivate mutating func insert(_ channel: PushChannel) {
        var place = count
        while place > 0, self[place - 1].number > channel.number { place -= 1 }
        insert(channel, at: place)
    }

    /// Removes a channel. The channels are in the order of their numbers.
    fileprivate mutating func remove(_ channel: PushChannel) {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle].number < channel.number { low = middle + 1 } else { high = middle }
        }
        if low < count, self[low] === channel { remove(at: low) }
    }
}
