import Trunkline

extension SimulatedNetwork {
    /// Lets `duration` pass in which nobody on this network does anything, as when the process hangs or the machine sleeps:
    /// timers that come due meanwhile fire late. To be called within `run`.
    package func stall(for duration: Duration) {
        loop.confined { loop.time.advance(to: loop.now.advanced(by: duration)) }
    }

    /// Puts the machine to sleep for `duration`, in which nothing on this network happens: timers and packets that come due
    /// meanwhile are late. Clients learn within 5 ms of virtual time that the machine has slept. To be called within `run`;
    /// when it returns, the time has passed.
    public func putToSleep(for duration: Duration) {
        stall(for: duration)
        loop.confined {
            loop.network.note(.fault, detail: "slept for \(duration)")
            loop.network.announce(.wake)
        }
    }
}
