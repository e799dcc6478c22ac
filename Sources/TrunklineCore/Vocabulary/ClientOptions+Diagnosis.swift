extension ClientOptions {
    /// The options for diagnosing why links end.
    public struct Diagnosis: Sendable {
        /// The closure that returns whether the network is up, to distinguish a network failure from a server failure.
        /// Default none.
        ///
        /// The client calls it after every abnormal end of a link or attempt. The closure may check, for example,
        /// whether another host can be reached or an interface has an address. The result becomes
        /// `DisconnectReport.isNetworkUp`, and the report waits for it. Reconnecting does not wait for it.
        public var probe: (@Sendable (DisconnectReport) async -> Bool)?
        /// How long a report waits for ``probe``. Then the task of the probe is cancelled, and `isNetworkUp` is `nil`.
        /// Default 3 s.
        public var probeTimeout: Duration = .seconds(3)

        /// Creates options with the default values.
        public init() {}
    }
}
