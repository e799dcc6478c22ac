/// What happens when a timer of a connection fires.
protocol ConnectionTimerHost: AnyObject, Sendable {
    func timerFired(_ name: ConnectionTimers.Name)
}

/// Each timer is created when it is first armed. Confined to the event loop of the connection.
final class ConnectionTimers {
    enum Name: Int, CaseIterable {
        /// The end of a handshake's time, of a back-off, or of closing.
        case main
        case liveness
        case draining
        case files
        case path

        /// For recordings.
        func label(isClosing: Bool, isAttempting: Bool) -> String {
            switch self {
            case .main: isClosing ? "closing" : isAttempting ? "attempt" : "back-off"
            case .liveness: "liveness"
            case .draining: "draining"
            case .files: "rotation"
            case .path: "path"
            }
        }
    }

    private let loop: any EventLoop
    /// How late the checks of liveness may be: see `LoopTimer.grid`.
    private var livenessGrid: Duration
    private var timers: [ConnectionTimer?] = []
    var livenessArmed: Instant?

    init(on loop: any EventLoop, livenessGrid: Duration) { (self.loop, self.livenessGrid) = (loop, livenessGrid) }

    func arm(_ name: Name, at deadline: Instant?, for host: @autoclosure () -> (any ConnectionTimerHost)?) {
        if timers.isEmpty {
            guard deadline != nil else { return }
            timers = Array(repeating: nil, count: Name.allCases.count)
        }
        if let timer = timers[name.rawValue] { return loop.arm(timer.timer, at: deadline) }
        guard deadline != nil, let host = host() else { return }
        let timer = ConnectionTimer(name, of: host, grid: name == .liveness ? livenessGrid : .nanoseconds(1))
        timers[name.rawValue] = timer
        loop.arm(timer.timer, at: deadline)
    }

    func setLivenessGrid(_ grid: Duration) {
        guard grid != livenessGrid else { return }
        livenessGrid = grid
        guard !timers.isEmpty, let timer = timers[Name.liveness.rawValue] else { return }
        loop.arm(timer.timer, at: nil)
        timers[Name.liveness.rawValue] = nil
        livenessArmed = nil
    }

    func isArmed(_ name: Name) -> Bool { timers.isEmpty ? false : timers[name.rawValue]?.timer.deadline != nil }

    func disarmAll() {
        for timer in timers.compactMap(\.self) { loop.arm(timer.timer, at: nil) }
        timers = []
    }

    deinit {
        // The loop keeps armed timers. This may run on any thread.
        let timers = timers.compactMap(\.self)
        guard !timers.isEmpty else { return }
        loop.schedule(LoopClosure { [loop] in for timer in timers { loop.arm(timer.timer, at: nil) } })
    }
}

/// Unchecked Sendable: `timer` is accessed only on the connection's loop.
private final class ConnectionTimer: TimerTarget, @unchecked Sendable {
    private(set) lazy var timer = LoopTimer(target: self, grid: grid, ticks: name == .main)
    private let name: ConnectionTimers.Name
    private weak let host: (any ConnectionTimerHost)?
    private let grid: Duration

    init(_ name: ConnectionTimers.Name, of host: any ConnectionTimerHost, grid: Duration) {
        (self.name, self.host, self.grid) = (name, host, grid)
    }

    func timerFired() { host?.timerFired(name) }
}
