import Trunkline

extension SimulatedNetwork {
    /// Lets `duration` pass while nothing on this network runs, as when the process hangs or the machine sleeps: timers
    /// that come due meanwhile fire late. Must be called within `run`.
    package func stall(for duration: Duration) {
        loop.confined { loop.time.advance(to: loop.now.advanced(by: duration)) }
    }

    /// Puts the machine to sleep for `duration`. Must be called within ``run(limits:_:)``.
    ///
    /// Virtual time advances by `duration` before the call returns. Nothing else happens on this network in the
    /// meantime: timers and packets that come due are late. Clients learn within 5 ms of virtual time that the machine
    /// has slept.
    public func putToSleep(for duration: Duration) {
        stall(for: duration)
        loop.confined {
            loop.network.note(.fault, detail: "slept for \(duration)")
            loop.network.announce(.wake)
        }
    }
}
