extension Client {
    /// The counts, durations and current values of a client.
    public typealias Metrics = ClientMetrics

    /// The metrics of this client at the time of the call: a consistent snapshot.
    public var metrics: Metrics { dispatcher.metrics }
}
