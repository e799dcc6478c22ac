extension CachingSender {
    /// Counts of the calls since the creation of the caching sender, and the cached responses at present.
    ///
    /// Each call counts once as one of `hits`, `misses` and `shares`, unless it fails at once because its task is
    /// cancelled or its timeout is not positive.
    public struct Metrics: Sendable, Hashable {
        /// The number of calls that returned a cached response without a request.
        public var hits = 0
        /// The number of calls that sent a request, and of calls with `.returnCacheElseFail` that found no response.
        public var misses = 0
        /// The number of calls that joined a coalesced request of another call.
        public var shares = 0
        /// The number of calls that returned a cached response because the server could not be reached. They also count
        /// as misses or shares.
        public var staleHits = 0
        /// The number of cached responses.
        public var count = 0
        /// The size of the cached responses in bytes, as ``CachingSender/Options/maximumBytes`` counts them.
        public var byteCount = 0

        /// Creates metrics in which every count is zero.
        public init() {}
    }
}
