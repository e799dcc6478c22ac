import TrunklineCore

/// What a cluster counts about its calls, beside what its clients count about their tries. Only calls that fail, or are
/// sent again, change it.
struct CallCounts: Sendable {
    private(set) var failures: [ClientMetrics.Failure: Int] = [:]
    /// A server was chosen for a call that already had one.
    private(set) var repeats = 0
    /// The calls that failed before a server was chosen.
    private(set) var unplaced = 0
    private(set) var (retries, retriesRefused) = (0, 0)

    private(set) var undecodable = 0

    mutating func failed(_ error: ClientError, wasPlaced: Bool, count: Int) {
        failures[ClientMetrics.Failure(error.code, error.fate), default: 0] += count
        if !wasPlaced { unplaced += count }
    }

    mutating func countUndecodable() { undecodable += 1 }

    mutating func countRepeats(_ count: Int) { repeats += count }

    mutating func countRetry(isAllowed: Bool) {
        if isAllowed { retries += 1 } else { retriesRefused += 1 }
    }
}
