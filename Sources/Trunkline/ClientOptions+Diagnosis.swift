extension ClientOptions {
    /// Finding out why links end.
    public struct Diagnosis: Sendable {
        /// Asked after every abnormal end whether the network is up, to tell "our network" from "that server": can another
        /// host be reached, does an interface have an address? The answer becomes `DisconnectReport.isNetworkUp`, and the
        /// report waits for it. Default none. Reconnecting does not wait for it.
        public var probe: (@Sendable (DisconnectReport) async -> Bool)?
        /// How long a report waits for `probe`, whose task is cancelled then. Default 3 s.
        public var probeTimeout: Duration = .seconds(3)
    }
}
