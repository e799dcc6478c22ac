import TrunklineCore

/// A fingerprint of all events. Nothing recorded may depend on an address in memory, the order of a dictionary, or real
/// time.
struct Trace {
    enum Kind: UInt64 {
        case job, work, endOfTurn, timer
        case resolved, connect, connected, connectFailed, accepted
        case write, packet, held, lost, read, end, reset, finish, close
        case listen, stopListening, fault
        case networkChange
    }

    var isRecording = false
    private(set) var lines: [String] = []
    private(set) var fingerprint: UInt64 = 0xcbf2_9ce4_8422_2325

    /// `subject` is usually the number of a link; `detail` is not part of the fingerprint.
    mutating func note(
        _ kind: Kind,
        _ subject: UInt64 = 0,
        _ amount: Int = 0,
        at now: Instant,
        detail: @autoclosure () -> String = ""
    ) {
        mix(UInt64(bitPattern: now.nanoseconds))
        mix(kind.rawValue << 56 ^ subject << 24 ^ UInt64(truncatingIfNeeded: amount))
        guard isRecording else { return }
        let detail = detail()
        lines.append("\(seconds(now)) \(kind) \(subject) \(amount)" + (detail.isEmpty ? "" : " \(detail)"))
    }

    private mutating func mix(_ value: UInt64) {
        fingerprint = (fingerprint ^ value) &* 0x0000_0100_0000_01b3
        fingerprint ^= fingerprint >> 29
    }
}

func seconds(_ instant: Instant) -> String {
    let fraction = String(instant.nanoseconds % 1_000_000_000)
    return "\(instant.nanoseconds / 1_000_000_000)." + String(repeating: "0", count: 9 - fraction.count) + fraction
}
