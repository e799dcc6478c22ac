/// The order of an integer's bytes.
public enum ByteOrder: Sendable, Hashable {
    /// Most significant byte first, as networks do.
    case bigEndian
    /// Least significant byte first.
    case littleEndian
}

/// The bytes that were received and not yet decoded. Codecs read from its front.
///
/// Every read checks its bounds and returns `nil` when the bytes are not there yet; none can trap.
public struct ReceiveBuffer: Sendable {
    /// `storage[lower..<upper]` holds the bytes; what is after `upper` is free space.
    @usableFromInline var storage: [UInt8] = []
    @usableFromInline var lower = 0
    @usableFromInline var upper = 0
    /// The size of the frame at `lower` that the codec is waiting for; 0 when it has not said.
    @usableFromInline var awaited = 0
    /// What is before it was discarded: `rewind(to:)` does not go back there.
    @usableFromInline var floor = 0
    /// Whether a frame shares `storage`, so that writing to it would copy it.
    @usableFromInline var isShared = false
    /// How many bytes the next read should offer: grows while reads fill it and shrinks while they hardly do.
    private var readSize = ReceiveBuffer.smallestRead

    private static let smallestRead = 64 * 1024
    private static let largestRead = 256 * 1024
    /// So much of an incomplete frame is rather copied than kept in a large run of memory.
    private static let smallLeftOver = 4 * 1024

    /// A buffer that holds `bytes`, for trying a codec out.
    package init(_ bytes: some Sequence<UInt8>) {
        storage = Array(bytes)
        upper = storage.count
    }

    /// A buffer that holds `bytes`, shared with them, not copied: for trying a codec out, and for reading a frame's body as
    /// a codec reads its input.
    public init(_ bytes: Bytes = Bytes()) {
        storage = bytes.storage
        (lower, upper) = (bytes.start, bytes.start + bytes.count)
        isShared = !bytes.isEmpty
    }

    /// How many bytes are there to be read.
    @inlinable
    public var count: Int { upper - lower }

    /// Whether there is nothing to be read.
    @inlinable
    public var isEmpty: Bool { lower == upper }

    // MARK: Looking without consuming

    /// The byte at `offset` from the front; `nil` when it is not there yet.
    @inlinable
    public func byte(at offset: Int) -> UInt8? {
        offset >= 0 && offset < count ? storage[lower &+ offset] : nil
    }

    /// The unsigned integer of `width` bytes (1 to 8) at `offset` from the front; `nil` when it is not there yet.
    @inlinable
    public func integer(at offset: Int, width: Int, order: ByteOrder = .bigEndian) -> UInt64? {
        guard offset >= 0, width > 0, width <= 8, offset <= count &- width else { return nil }
        return unsafe storage.withUnsafeBufferPointer { bytes in
            var value: UInt64 = 0
            for index in 0..<width {
                let place = order == .bigEndian ? index : width &- 1 &- index
                value = value &<< 8 | UInt64(unsafe bytes[lower &+ offset &+ place])
            }
            return value
        }
    }

    /// The unsigned integer of type `Value` at `offset` from the front; `nil` when it is not there yet.
    @inlinable
    public func integer<Value: FixedWidthInteger & UnsignedInteger>(
        at offset: Int,
        as type: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> Value? {
        let width = MemoryLayout<Value>.size
        guard offset >= 0, offset <= count &- width else { return nil }
        let value = unsafe storage.withUnsafeBytes {
            unsafe $0.loadUnaligned(fromByteOffset: lower &+ offset, as: Value.self)
        }
        return order == .bigEndian ? Value(bigEndian: value) : Value(littleEndian: value)
    }

    /// Calls `body` with the bytes that are there as a span.
    @inlinable
    public func withSpan<Result, Failure: Error>(
        _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(storage.span.extracting(lower..<upper))
    }

    /// The offset of the first `byte` at or after `offset`; `nil` when there is none yet.
    public func firstOffset(of byte: UInt8, from offset: Int = 0) -> Int? {
        guard offset >= 0, offset < count else { return nil }
        let found = unsafe storage.withUnsafeBytes {
            unsafe $0.firstOffset(of: byte, from: lower &+ offset, to: upper)
        }
        return found.map { $0 &- lower }
    }

    /// The offset of the first place, at `offset` or after it, where all of `pattern` stands; `nil` when there is none yet.
    ///
    /// When it is called again for the same frame, `count - pattern.count + 1` of the time before is where to go on from,
    /// if that is not negative: looking through all of it with every few bytes that arrive takes too long.
    public func firstOffset(of pattern: Bytes, from offset: Int = 0) -> Int? {
        guard offset >= 0, offset <= count else { return nil }
        let found = unsafe storage.withUnsafeBytes { memory in
            unsafe pattern.withUnsafeBytes { unsafe memory.firstOffset(of: $0, from: lower &+ offset, to: upper) }
        }
        return found.map { $0 &- lower }
    }

    // MARK: Consuming

    /// Takes the unsigned integer of type `Value` from the front.
    @inlinable
    public mutating func readInteger<Value: FixedWidthInteger & UnsignedInteger>(
        as type: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> Value? {
        guard let value = integer(at: 0, as: type, order: order) else { return nil }
        lower &+= MemoryLayout<Value>.size
        return value
    }

    /// Takes `length` bytes from the front; `nil` when they are not all there yet.
    ///
    /// The bytes get storage of their own, unless they are so large a part of the buffer that sharing is cheaper.
    @inlinable
    public mutating func readBytes(_ length: Int) -> Bytes? {
        guard length >= 0, length <= count else { return nil }
        if length == 0 { return Bytes() }
        let range = lower..<lower &+ length
        lower &+= length
        if length >= 4096, length >= storage.count / 8 {
            isShared = true
            return Bytes(sharing: storage, in: range)
        }
        return Bytes(
            unsafe storage.withUnsafeBufferPointer { unsafe Array(UnsafeBufferPointer(rebasing: $0[range])) }
        )
    }

    /// Drops `length` bytes from the front, or nothing and returns `false` when they are not all there yet.
    @inlinable
    @discardableResult
    public mutating func skip(_ length: Int) -> Bool {
        guard length >= 0, length <= count else { return false }
        lower &+= length
        return true
    }

    /// Drops up to `length` bytes from the front that belong to no frame, for good: they are not put back when `decode`
    /// returns `nil` after it. Returns how many were there to be dropped.
    ///
    /// For padding and comments between frames, and for what is left of a frame that is too long, so that it need not be
    /// kept until its end has come. Everything that was read before goes with them.
    @inlinable
    @discardableResult
    public mutating func discard(_ length: Int) -> Int {
        let length = Swift.max(0, Swift.min(length, count))
        lower &+= length
        floor = lower
        return length
    }

    /// Says that the frame at the front has `length` bytes in all, so that it is read in one piece.
    ///
    /// Only a hint, and only to be given *after* checking `length` against the frame size limit: memory is set aside
    /// for it as its bytes arrive.
    @inlinable
    public mutating func await(_ length: Int) {
        awaited = length
    }

    /// The size of the frame that `await(_:)` announced and that was not taken yet; 0 when there is none.
    package var awaitedCount: Int { awaited }

    /// The place to `rewind(to:)`.
    @inlinable
    package var position: Int { lower }

    /// Puts back what was read since `position` was `mark`, but nothing that was discarded.
    @inlinable
    package mutating func rewind(to mark: Int) {
        lower = max(mark, floor)
    }

    /// Ends the waiting that `await(_:)` announced: its frame was taken.
    @inlinable
    package mutating func stopAwaiting() { awaited = 0 }

    // MARK: Filling

    /// Lets `read` fill the free space and takes the bytes it reports; returns what it returned.
    ///
    /// Left-overs whose storage was handed out in a frame move to fresh storage instead of being copied by it.
    package mutating func fill<Outcome>(
        _ read: (UnsafeMutableRawBufferPointer) -> (count: Int, outcome: Outcome)
    ) -> (count: Int, outcome: Outcome) {
        makeRoom()
        let start = upper
        let offered = storage.count - start
        let result = unsafe storage.withUnsafeMutableBytes {
            unsafe read(UnsafeMutableRawBufferPointer(rebasing: $0[start...]))
        }
        precondition(result.count >= 0 && result.count <= offered, "read more than was offered")
        upper += result.count
        if result.count == offered {
            readSize = min(readSize * 2, Self.largestRead)
        } else if result.count < readSize / 8 {
            readSize = max(readSize / 2, Self.smallestRead)
        }
        return result
    }

    /// How many bytes the next `fill` offers at least.
    private func makesRoomFor() -> Int {
        // A large frame is awaited in storage of its own size, but never more than sixteen times what has arrived
        // of it: a peer that only *announces* much gets little.
        guard awaited > count else { return max(readSize, count / 4) }
        return max(readSize, min(awaited - count, max(count * 15, Self.largestRead)))
    }

    private mutating func makeRoom() {
        let wanted = makesRoomFor()
        if isEmpty && !isShared { (lower, upper, floor) = (0, 0, 0) }
        let left = lower..<upper
        // Fresh storage that does not hold the awaited frame either must at least double, or a frame that trickles in
        // would be copied whole with every few bytes.
        let suits = awaited <= storage.count - lower || left.count + wanted < 2 * storage.count
        let hasRoom = storage.count - upper >= wanted / 4 && suits
        if hasRoom && !isShared { return }
        let fresh = unsafe [UInt8](unsafeUninitializedCapacity: left.count + wanted) { memory, initialized in
            unsafe storage.withUnsafeBufferPointer { old in
                _ = unsafe memory.initialize(fromContentsOf: old[left])
            }
            // The free space is written by `read` before anything reads it.
            initialized = left.count + wanted
        }
        storage = fresh
        (lower, upper, floor, isShared) = (0, left.count, 0, false)
    }

    /// Takes `memory` for the reads that follow, with what is left to decode copied to its front, unless there is as much
    /// already. Many buffers can share one run of memory so, one after the other.
    package mutating func borrow(_ memory: inout [UInt8]) {
        guard storage.count < memory.count else { return }
        let left = count
        memory.replaceSubrange(..<left, with: storage[lower..<upper])
        storage = exchange(&memory, with: [])
        (lower, upper, floor, isShared) = (0, left, 0, false)
    }

    /// Puts the memory in place of `memory`, unless a frame shares it or much is left in it to decode; to be called at
    /// the end of a batch, so that a quiet link keeps no more than it needs.
    package mutating func giveBack(to memory: inout [UInt8]) {
        if isEmpty && isShared {
            (storage, lower, upper, floor, awaited, isShared) = ([], 0, 0, 0, 0, false)
        } else if !isShared, count <= Self.smallLeftOver, storage.count > Self.smallLeftOver {
            let left = isEmpty ? [] : Array(storage[lower..<upper])
            if storage.count > memory.count { memory = exchange(&storage, with: []) }
            storage = left
            (lower, upper, floor) = (0, left.count, 0)
        }
    }
}
