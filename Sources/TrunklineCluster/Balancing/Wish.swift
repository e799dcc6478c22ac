import TrunklineCore

/// What the choice of a server needs to know of a request.
struct Wish: Sendable {
    /// Whether a request may be the probe of a server that is left out.
    enum Probing {
        case never
        /// If no other was, for a while.
        case last
        /// At once: it may be performed twice.
        case first
    }

    let now: Instant
    var key: UInt64?
    var excluded: [UInt64] = []
    var isLarge = false
    var probing = Probing.last
}
