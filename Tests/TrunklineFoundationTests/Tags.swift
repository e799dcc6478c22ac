import Testing

extension Tag {
    /// For suites that use real sockets, event loops or threads: the thread sanitizer runs those. A suite without it that
    /// awaits, and is not `.simulated`, fails the project's check (`.ci/suites.py`).
    @Tag static var realThreads: Self
    /// For suites that use no other threads than that of a `SimulatedNetwork`.
    @Tag static var simulated: Self
}
