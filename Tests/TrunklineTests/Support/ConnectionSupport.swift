@testable import TrunklineCore

extension Connection {
    /// Whether the owner takes only heartbeats at present.
    var isPaused: Bool { driver.port.isPaused }

    /// Whether the liveness of a link is to be checked.
    var isWatched: Bool { driver.timers.isArmed(.liveness) }
}

extension Client {
    /// The draining links whose calls are still measured.
    var drainingInCounter: [SessionID] { dispatcher.ledger.callDurations.draining.map(\.session) }
}
