import Testing

extension Tag {
    /// For suites that use real sockets, event loops or threads. The thread sanitizer runs these suites. A suite that
    /// awaits must have this tag or be `.simulated`, or the project's check fails (`.ci/suites.py`).
    @Tag static var realThreads: Self
}
