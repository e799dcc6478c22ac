import TrunklineCore

extension SimulatedNetwork {
    /// Nothing runs meanwhile, as when the process hangs or the machine sleeps. Must be called within `run`.
    func stall(for duration: Duration) {
        loop.confined { loop.time.advance(to: loop.now.advanced(by: duration)) }
    }

    /// Stops the process of the clients, as `SIGSTOP` does; servers, the network and all tasks go on. Must be called
    /// within `run`.
    func stopProcess(for duration: Duration) {
        loop.confined {
            let end = loop.now.advanced(by: duration)
            if loop.stoppedUntil == nil { loop.stoppedSince = loop.now }
            loop.stoppedUntil = max(loop.stoppedUntil ?? end, end)
            loop.network.note(.fault, detail: "stopped for \(duration)")
        }
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
