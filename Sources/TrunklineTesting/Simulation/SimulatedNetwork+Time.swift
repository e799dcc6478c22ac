import Trunkline

extension SimulatedNetwork {
    /// Lets `duration` pass in which nobody on this network does anything, as when the process hangs or the machine sleeps:
    /// timers that come due meanwhile fire late. To be called within `run`.
    package func stall(for duration: Duration) {
        loop.confined { loop.time.advance(to: loop.now.advanced(by: duration)) }
    }
}
