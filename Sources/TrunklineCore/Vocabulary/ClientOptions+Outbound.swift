extension ClientOptions {
    /// The limits for bytes that wait to be written.
    public struct Outbound: Sendable {
        /// The number of bytes waiting to be written at which further requests begin to wait. Default 1 MiB, at least
        /// 1.
        ///
        /// It also limits the messages that ``Client/enqueue(_:timeout:)`` has accepted and that are not yet written.
        public var highWatermark = 1024 * 1024
        /// The number of bytes waiting to be written below which the waiting requests continue. Default 256 KiB, at
        /// least 1 and at most ``highWatermark``.
        public var lowWatermark = 256 * 1024

        /// Creates options with the default values.
        public init() {}
    }
}
