import TrunklineIO

/// A timer of a connection beside that of its attempts. Kept by the connection.
///
/// Sendable although it is not checked: `timer` is touched on the connection's loop only.
final class ConnectionTimer: TimerTarget, @unchecked Sendable {
    private(set) lazy var timer = LoopTimer(target: self)
    private weak let connection: Connection?
    private let action: @Sendable (isolated Connection) -> Void

    init(_ connection: Connection, _ action: @escaping @Sendable (isolated Connection) -> Void) {
        self.connection = connection
        self.action = action
    }

    func timerFired() { connection?.assumeIsolated { action($0) } }
}
