extension Connection {
    /// The counts and durations of attempts, links and their ends, and the state of the present link.
    public typealias Metrics = ConnectionMetrics

    /// Counts and durations of attempts, links and their ends, and the state of the present link.
    ///
    /// Reading them costs a system call if a link is ready.
    public var metrics: Metrics { driver.metrics }

    /// A report of every attempt that fails and every link that ends from now on, until the connection is closed.
    ///
    /// Each access creates a separate stream. A reader that is more than 64 reports behind misses the oldest ones. With
    /// `options.diagnosis.probe`, reports wait for the probe.
    public nonisolated var disconnects: AsyncStream<DisconnectReport> { driver.reports.readers.makeStream() }
}
