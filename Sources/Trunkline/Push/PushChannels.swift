/// The streams of pushes of one client, on its loop: those with a key are found by it, the others are asked one by one.
struct PushChannels {
    /// Those without a key, in the order in which they were made.
    private var others: [PushChannel] = []
    private var keyed: [PushKey: [PushChannel]] = [:]
    /// Those whose full buffer suspends reading, and perhaps some that did lately.
    private var full: [PushChannel] = []
    /// Malformed pushes of which no key is known, and which those with a key have not been told of.
    private var malformedCount = 0

    /// All of them, in the order in which they were made: that of a dictionary differs from process to process.
    var all: [PushChannel] {
        keyed.isEmpty ? others : (others + keyed.values.joined()).sorted { $0.number < $1.number }
    }

    var isEmpty: Bool { others.isEmpty && keyed.isEmpty }

    /// Whether reading is suspended on account of one of them.
    mutating func suspendReading() -> Bool {
        full.removeAll { !$0.suspendsReading }
        return !full.isEmpty
    }

    mutating func insert(_ channel: PushChannel) {
        if case .key(let key) = channel.selection {
            keyed[key, default: []].append(channel)
        } else {
            others.append(channel)
        }
    }

    mutating func remove(_ channel: PushChannel) {
        if case .key(let key) = channel.selection {
            keyed[key]?.removeAll { $0 === channel }
            if keyed[key]?.isEmpty == true { keyed[key] = nil }
        } else {
            others.removeAll { $0 === channel }
        }
    }

    mutating func removeAll() { self = PushChannels() }

    /// Offers a push to those who want it. Returns whether reading is to be suspended on account of one of them that did
    /// not ask for it before.
    mutating func offer(_ push: Frame, speaking codec: any FrameCodec) -> Bool {
        var isNewlyFull = false
        for channel in others where channel.wants(push) {
            if channel.offer(push) { isNewlyFull = note(channel) }
        }
        guard !keyed.isEmpty else { return isNewlyFull }
        if let key = codec._pushKey(of: push) {
            for channel in keyed[key] ?? [] {
                if channel.offer(push) { isNewlyFull = note(channel) }
            }
        } else if push.malformedReason != nil {
            malformedCount += 1
        }
        return isNewlyFull
    }

    private mutating func note(_ channel: PushChannel) -> Bool {
        if !full.contains(where: { $0 === channel }) { full.append(channel) }
        return true
    }

    /// Tells those with a key of malformed pushes that may have been theirs. Once for a batch: there may be very many
    /// of both.
    mutating func yieldMalformed() {
        guard malformedCount > 0 else { return }
        for channel in all {
            if case .key = channel.selection { channel.noteMalformed(malformedCount) }
        }
        malformedCount = 0
    }
}
