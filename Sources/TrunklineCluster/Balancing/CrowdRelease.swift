package import TrunklineCore

/// Decides how many of the calls that wait go on while only a part of the servers is ready.
///
/// At first, a few for each server that is ready: the others may be ready in a moment, and then all go on. After each
/// moment in which they are not, as large a part goes on as the ready servers have of all, at least a tenth. So a crowd
/// that has waited for ten servers does not go to the first one at once, and does not wait longer than half a second
/// for servers that do not come.
package struct CrowdRelease: Sendable {
    /// How long a part of the calls waits for further servers.
    package static let interval = Duration.milliseconds(50)
    /// The number of calls for each ready server that do not wait: too few to matter.
    private static let few = 8
    private static let smallestShare = 0.1

    /// When the next part may go on.
    package private(set) var moment: Instant
    /// The number of calls that have gone on.
    private var released = 0
    /// The share of the crowd that may have gone on by now, without the first few.
    private var share = 0.0

    package init(at now: Instant) { moment = now.advanced(by: Self.interval) }

    /// Returns how many more calls go on. The caller must let them.
    ///
    /// - Parameters:
    ///   - waiting: The number of calls that wait.
    ///   - servers: The number of servers that are ready.
    ///   - part: Their share of the weights of all that are expected to be ready.
    package mutating func next(of waiting: Int, to servers: Int, share part: Double, at now: Instant) -> Int {
        while moment <= now, share < 1 {
            moment = moment.advanced(by: Self.interval)
            share += max(part, Self.smallestShare)
        }
        if share >= 1 { moment = max(moment, now.advanced(by: Self.interval)) }
        let crowd = released + waiting
        let total = max(Self.few * servers, Int((Double(crowd) * min(share, 1)).rounded(.up)))
        let count = min(waiting, max(0, total - released))
        released += count
        return count
    }
}
