extension CachingSender {
    /// The limits of the cache.
    ///
    /// When a limit is reached, the least recently used responses are removed. With a limit of 0 or below nothing is
    /// cached, but identical calls at the same time still share one request. See <doc:Caching>.
    public struct Options: Sendable {
        /// The maximum number of cached responses. Default 1,000.
        public var maximumCount = 1_000
        /// The maximum size of the cached responses in bytes. Default 16 MiB.
        ///
        /// Each counts as the body and fields of the response, the body and fields of the request (or the custom key),
        /// and 512 bytes. A response that is larger than the limit is not cached.
        public var maximumBytes = 16 * 1024 * 1024

        /// Creates options with the default values.
        public init() {}

        /// Creates options with the default values, modified by `change`.
        public init(_ change: (inout Options) throws -> Void) rethrows { try change(&self) }
    }
}
