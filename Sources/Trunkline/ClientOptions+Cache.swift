extension ClientOptions {
    /// Responses that are kept for later callers: those to calls with a `CachePolicy`, and no others.
    ///
    /// What was not used for longest makes room. At 0 or below nothing is kept; calls that ask for the same at the same
    /// time are coalesced into one request all the same.
    public struct Cache: Sendable {
        /// How many responses are kept. Default 1,000.
        public var maximumCount = 1_000
        /// How many bytes they hold: the response's body and fields, those of the request (or your own key), and 512 bytes of
        /// bookkeeping for each. A response that is larger by itself is not kept. Default 16 MiB.
        public var maximumBytes = 16 * 1024 * 1024
    }
}
