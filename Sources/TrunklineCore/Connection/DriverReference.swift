/// The way into a connection's driver for what may outlive it: sockets, dialers, timers, posted work, and observers of
/// the network. They refer to this object weakly; the actor `Connection` owns it. Weak references to the driver itself
/// would make each retain and release of it take 50 to 100 instructions more.
final class DriverReference: Sendable {
    let driver: ConnectionDriver

    init(_ driver: ConnectionDriver) {
        self.driver = driver
        driver.reference = self
    }
}

extension DriverReference: TransportHandler, DialerDelegate, ConnectionTimerHost, PathObserver, LoopDelayReceiver {
    func transport(_ id: UInt64, did event: TransportEvent) { driver.entered { $0.io.heard(id, event) } }

    func dialer(did event: DialEvent) { driver.entered { $0.take(event) } }

    func timerFired(_ name: ConnectionTimers.Name) { driver.entered { $0.timerFired(name) } }

    func networkChanged(_ change: NetworkChange) { driver.entered { $0.take(change) } }

    func loopWasLate(_ delay: LoopDelay) { driver.entered { $0.giveBack(delay) } }
}

extension ConnectionDriver {
    /// Runs `body` on the loop, soon, unless the connection has been deallocated by then. May be called on any thread.
    func schedule(_ body: @escaping @Sendable (ConnectionDriver) -> Void) {
        loop.schedule(LoopClosure { [weak reference] in reference?.driver.entered(body) })
    }

    /// Runs `body` in the next turn, otherwise as `schedule`. Call this on the loop.
    func scheduleInNextTurn(_ body: @escaping @Sendable (ConnectionDriver) -> Void) {
        loop.scheduleInNextTurn(LoopClosure { [weak reference] in reference?.driver.entered(body) })
    }
}
