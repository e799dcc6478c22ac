import Trunkline

/// The virtual time of a simulated network. Sleeping costs no real time.
public struct SimulatedClock: Clock {
    /// A point in virtual time.
    public struct Instant: InstantProtocol {
        /// How long after the simulation's beginning.
        public let offset: Duration

        /// The point in time that is `offset` after the simulation's beginning.
        package init(offset: Duration) { self.offset = offset }

        /// The instant `duration` later.
        public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }

        /// How long after this instant `other` is.
        public func duration(to other: Instant) -> Duration { other.offset - offset }

        /// Whether `a` comes before `b`.
        public static func < (a: Instant, b: Instant) -> Bool { a.offset < b.offset }
    }

    let loop: SimulatedEventLoop

    /// What time it is.
    public var now: Instant { Instant(offset: .nanoseconds(loop.now.nanoseconds)) }

    /// One nanosecond.
    public var minimumResolution: Duration { .nanoseconds(1) }

    /// Waits until `deadline`, to the nanosecond; `tolerance` is not used. Throws `CancellationError` at once when the
    /// task is cancelled. The task must be one that runs on the simulation.
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
