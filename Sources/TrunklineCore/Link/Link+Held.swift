extension Frame {
    /// An estimate.
    var heldByteCount: Int { byteCount + MemoryLayout<Frame>.stride }
}

extension Link {
    struct Held {
        private(set) var frames: [Frame] = []
        private(set) var byteCount = 0
        /// Whether the limit is lifted: the socket has failed, so only what it still holds can come.
        var isUnlimited = false

        mutating func append(_ frame: Frame) {
            frames.append(frame)
            byteCount += frame.heldByteCount
        }

        mutating func takeAll() -> [Frame] {
            let frames = frames
            self = Held()
            return frames
        }
    }
}
