/// The slowest requests of the last minutes, in fixed memory.
///
/// There are two periods, the present one and the one before it. Each keeps its slowest requests, unless they are
/// faster than `minimum`: making a timeline takes longer than making a request, and an idle client should need no memory
/// for timelines.
struct SlowestRequests {
    private var present: [Timeline] = []
    private var previous: [Timeline] = []
    private var presentEnd = Instant.distantPast
    /// The duration, in nanoseconds, above which a request that ends in the present period belongs to the slowest.
    private var threshold = Self.minimum

    /// The maximum number of requests of each period.
    static let capacity = 8
    static let period = Duration.seconds(120)
    /// The duration of the fastest request that counts as slow, in nanoseconds: 1 ms.
    private static let minimum: Int64 = 1_000_000

    /// Whether a request of this duration, which ends at `now`, must be added.
    @inline(__always)
    func wants(_ nanoseconds: Int64, at now: Instant) -> Bool {
        nanoseconds >= threshold || nanoseconds >= Self.minimum && now >= presentEnd
    }

    mutating func add(_ timeline: Timeline, at now: Instant) {
        roll(to: now)
        let place = present.firstIndex { $0.duration < timeline.duration } ?? present.count
        present.insert(timeline, at: place)
        if present.count > Self.capacity { present.removeLast() }
        if present.count == Self.capacity, let last = present.last { threshold = last.duration.clampedNanoseconds }
    }

    /// Begins a new period if the present one has ended.
    private mutating func roll(to now: Instant) {
        guard now >= presentEnd else { return }
        // A period without any request of its own may have passed. Then the present one is too old to be kept.
        let isNext = now < presentEnd.advanced(by: Self.period)
        (previous, present, threshold) = (isNext ? present : [], [], Self.minimum)
        presentEnd = (isNext ? presentEnd : now).advanced(by: Self.period)
    }

    /// The slowest requests of the present and the previous period, slowest first.
    mutating func all(at now: Instant) -> [Timeline] {
        roll(to: now)
        return (present + previous).sorted { $0.duration > $1.duration }
    }
}
