import TrunklineCore

/// The virtual time of a simulated network. Sleeping takes no real time.
///
/// It begins at zero and stands still between runs. Pass it to code that takes a `Clock`, such as
/// `withTimeout(_:clock:_:)`.
public struct SimulatedClock: Clock {
    /// A point in virtual time.
    public struct Instant: InstantProtocol {
        /// The virtual time since the beginning of the simulation.
        public let offset: Duration

        init(offset: Duration) { self.offset = offset }

        /// Returns the instant that is `duration` later.
        public func advanced(by duration: Duration) -> Instant { Instant(offset: offset.addingClamped(duration)) }

        /// Returns the duration from this instant to `other`.
        public func duration(to other: Instant) -> Duration { other.offset.subtractingClamped(offset) }

        /// Returns whether `a` comes before `b`.
        public static func < (a: Instant, b: Instant) -> Bool { a.offset < b.offset }
    }

    let loop: SimulatedEventLoop

    /// The current virtual time.
    public var now: Instant { Instant(offset: .nanoseconds(loop.now.nanoseconds)) }

    /// One nanosecond.
    public var minimumResolution: Duration { .nanoseconds(1) }

    /// Waits until `deadline` in virtual time, exact to the nanosecond. `tolerance` is ignored.
    ///
    /// The calling task must run on the simulation; otherwise the run ends with ``SimulationError/leftTheLoop(_:)``.
    ///
    /// - Throws: `CancellationError` as soon as the task is cancelled.
    public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
        try Task.checkCancellation()
        let sleeper = Sleeper(on: loop, until: .init(nanoseconds: deadline.offset.clampedNanoseconds))
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { sleeper.begin($0) }
        } onCancel: {
            sleeper.cancel()
        }
    }
}
