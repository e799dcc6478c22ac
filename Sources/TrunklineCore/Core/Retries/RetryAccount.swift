/// The balance of a client's `RetryBudget`: a token bucket. It is updated only when a request would be retried, from
/// the number of requests, which the client counts anyway, and from a clock. So it costs an ordinary request nothing.
///
/// Invariant: at any instant, `withdrawn - deposited ≤ initial + share × requests + perSecond × elapsed`. Within any
/// period, at most `maximumSaved` plus what the period added is withdrawn.
package struct RetryAccount: Sendable {
    /// In millionths of a retry, so that shares add up exactly.
    private var balance: Int
    private let capacity: Int
    private let perRequest: Int
    private let perSecond: Int
    private var lastRequests = 0
    private var lastTime: Instant?

    private static let token = 1_000_000

    package init(_ budget: RetryBudget) {
        capacity = max(0, min(budget.maximumSaved, 1_000_000)) * Self.token
        balance = min(capacity, max(0, min(budget.initial, 1_000_000)) * Self.token)
        perRequest = Self.millionths(budget.share, atMost: 1_000)
        perSecond = Self.millionths(budget.perSecond, atMost: 1_000_000)
    }

    /// `value` may be any number, including NaN.
    private static func millionths(_ value: Double, atMost limit: Double) -> Int {
        value > 0 ? Int((min(value, limit) * Double(token)).rounded()) : 0
    }

    /// `requests` is the total number of requests so far.
    package mutating func withdraw(at now: Instant, requests: Int) -> Bool {
        credit(now, requests)
        guard balance >= Self.token else { return false }
        balance -= Self.token
        return true
    }

    package mutating func deposit() { balance = min(capacity, balance + Self.token) }

    private mutating func credit(_ now: Instant, _ requests: Int) {
        let room = capacity - balance
        let new = requests > lastRequests ? requests - lastRequests : 0
        let (earned, overflow) = new.multipliedReportingOverflow(by: perRequest)
        lastRequests += new
        balance += overflow ? room : min(room, earned)
        // Time adds nothing before the first update: a client that was idle for a day has no more than a new one.
        let elapsed = lastTime.map { max(0, now.since($0).clampedNanoseconds) } ?? 0
        lastTime = max(lastTime ?? now, now)
        let timely = Double(elapsed) * Double(perSecond) / 1e9
        balance += Int(min(Double(capacity - balance), timely))
    }
}
