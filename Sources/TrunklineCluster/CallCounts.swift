import TrunklineCore

/// What a cluster counts about its calls, beside what its clients count about their tries. Only calls that fail, or are
/// sent again, change it.
struct CallCounts: Sendable {
    /// The calls that failed, by code and fate.
    private(set) var failures: [Client.Metrics.Failure: Int] = [:]
    /// The number of times that a server was chosen for a call that already had one.
    private(set) var repeats = 0
    /// The number of calls that failed before a server was chosen.
    private(set) var unplaced = 0
    /// The number of requests that were sent again after they had been written, and of those that the budget did not allow.
    private(set) var (retries, retriesRefused) = (0, 0)

    /// The number of responses that their callers could not decode.
    private(set) var undecodable = 0

    mutating func failed(_ error: ClientError, wasPlaced: Bool, count: Int) {
        failures[Client.Metrics.Failure(error.code, error.fate), default: 0] += count
        if !wasPlaced { unplaced += count }
    }

    mutating func countUndecodable() { undecodable += 1 }

    mutating func countRepeats(_ count: Int) { repeats += count }

    mutating func countRetry(isAllowed: Bool) {
        if isAllowed { retries += 1 } else { retriesRefused += 1 }
    }
}
