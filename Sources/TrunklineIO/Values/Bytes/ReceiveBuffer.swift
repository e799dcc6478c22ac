/// The order of the bytes of an integer.
public enum ByteOrder: Sendable, Hashable {
    /// Most significant byte first (network byte order).
    case bigEndian
    /// Least significant byte first.
    case littleEndian
}

/// The received bytes that are not decoded yet. A codec reads from its front.
///
/// Offsets count from the front. Methods named `read…`, and ``skip(_:)`` and ``discard(_:)``, consume bytes at the
/// front; all others leave them in place. Every method checks its bounds. If bytes are missing, it returns `nil` (or
/// `false`) and consumes nothing; none traps. When ``FrameCodec/decode(_:)`` returns `nil`, the caller puts back
/// everything that was consumed, except what was discarded. <doc:WritingACodec> lists the methods and has examples.
public struct ReceiveBuffer: Sendable {
    /// Invariant: `storage[lower..<upper]` holds the bytes. The space after `upper` is free.
    @usableFromInline package var storage: [UInt8] = []
    @usableFromInline package var lower = 0
    @usableFromInline package var upper = 0
    @usableFromInline var awaited = 0
    /// Everything before it was discarded: `rewind(to:)` does not go back further.
    @usableFromInline var floor = 0
    /// Whether a frame shares `storage`. Writing to it would then copy it.
    @usableFromInline var isShared = false
    /// A copy of `storage` from `aheadStart` on, which the next small runs of bytes share.
    private var ahead: [UInt8] = []
    private var aheadStart = 0
    private var readSize = ReceiveBuffer.smallestRead

    /// Of the latest body of at least 4,096 bytes since the last read; 0 for none.
    @usableFromInline var latestLarge = 0
    /// Bodies of this length, of the last read, must be able to share the next memory.
    private var sharedLength = 0

    private static let smallestRead = 64 * 1024
    package static let datagramSize = 64 * 1024
    private static let largestRead = 256 * 1024
    private static let smallLeftOver = 4 * 1024
    private static let smallRun = 1024
    /// Runs share a copy of at most this size, or of at most `sharedRatio` times their own.
    private static let smallCopy = 256
    private static let sharedRatio = 8

    package init(_ bytes: some Sequence<UInt8>) {
        storage = Array(bytes)
        upper = storage.count
    }

    /// Creates a buffer that holds `bytes` and shares their storage.
    ///
    /// Use it in tests of a codec, or to read a frame's body with the methods of this type.
    public init(_ bytes: Bytes = Bytes()) {
        storage = bytes.storage
        (lower, upper) = (bytes.start, bytes.start + bytes.count)
        isShared = !bytes.isEmpty
    }

    /// The number of bytes in the buffer.
    @inlinable
    public var count: Int { upper - lower }

    /// Whether the buffer holds no bytes.
    @inlinable
    public var isEmpty: Bool { lower == upper }

    // MARK: Looking without consuming

    /// Returns the byte at `offset`, or `nil` if it has not arrived.
    @inlinable
    public func byte(at offset: Int) -> UInt8? {
        offset >= 0 && offset < count ? storage[lower &+ offset] : nil
    }

    /// Returns the unsigned integer of `width` bytes (1 to 8) at `offset`, or `nil` if not all of its bytes have
    /// arrived.
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

    /// Returns the unsigned integer of type `Value` at `offset`, or `nil` if not all of its bytes have arrived.
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

    /// Calls `body` with all bytes in the buffer as a span and returns its result.
    @inlinable
    public func withSpan<Result, Failure: Error>(
        _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(storage.span.extracting(lower..<upper))
    }

    /// Returns the offset of the first `byte` at or after `offset`, or `nil` if none has arrived.
    ///
    /// A codec whose frame is still incomplete should remember how far it has searched and continue from there:
    /// searching all bytes again whenever a few more arrive takes quadratic time.
    public func firstOffset(of byte: UInt8, from offset: Int = 0) -> Int? {
        guard offset >= 0, offset < count else { return nil }
        let found = unsafe storage.withUnsafeBytes {
            unsafe $0.firstOffset(of: byte, from: lower &+ offset, to: upper)
        }
        return found.map { $0 &- lower }
    }

    /// Returns the offset of the first occurrence of `pattern` at or after `offset`, or `nil` if none has arrived.
    ///
    /// A codec whose frame is still incomplete should remember how far it has searched: searching all bytes again
    /// whenever a few more arrive takes quadratic time. After a search without result, the next one can start at
    /// `max(0, count - pattern.count + 1)`, with `count` as it was during that search.
    public func firstOffset(of pattern: Bytes, from offset: Int = 0) -> Int? {
        guard offset >= 0, offset <= count else { return nil }
        let found = unsafe storage.withUnsafeBytes { memory in
            unsafe pattern.withUnsafeBytes { unsafe memory.firstOffset(of: $0, from: lower &+ offset, to: upper) }
        }
        return found.map { $0 &- lower }
    }

    // MARK: Consuming

    /// Consumes the unsigned integer of type `Value` at the front and returns it, or returns `nil` if not all of its
    /// bytes have arrived.
    @inlinable
    public mutating func readInteger<Value: FixedWidthInteger & UnsignedInteger>(
        as type: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> Value? {
        guard let value = integer(at: 0, as: type, order: order) else { return nil }
        lower &+= MemoryLayout<Value>.size
        return value
    }

    /// Consumes `length` bytes at the front and returns them, or returns `nil` if not all of them have arrived.
    ///
    /// The result shares the buffer's storage if it has at least 4,096 bytes and is at least an eighth of the storage.
    /// Otherwise it is a copy. A result of at most 1,024 bytes may share its copy with the bytes around it. That copy
    /// has at most 256 bytes, or eight times the size of the result if that is more.
    ///
    /// To compare bytes without keeping them, use ``byte(at:)``, ``integer(at:as:order:)`` or ``withSpan(_:)``, and
    /// then ``skip(_:)``.
    @inlinable
    public mutating func readBytes(_ length: Int) -> Bytes? {
        guard length >= 0, length <= count else { return nil }
        if length == 0 { return Bytes() }
        let range = lower..<lower &+ length
        lower &+= length
        guard length >= 4096 else { return copy(range) }
        latestLarge = length
        guard length >= storage.count / 8 else { return copy(range) }
        isShared = true
        return Bytes(sharing: storage, in: range)
    }

    /// Small runs are copied together with what follows them. Otherwise allocating and freeing would cost ten times as
    /// much as copying: 500 of 4,000 instructions for a request of 64 bytes in a batch.
    @usableFromInline
    mutating func copy(_ range: Range<Int>) -> Bytes {
        guard range.count <= Self.smallRun else { return Bytes(array(of: range)) }
        let most = max(Self.smallCopy, Self.sharedRatio &* range.count)
        let offset = range.lowerBound &- aheadStart
        if offset >= 0, offset &+ range.count <= ahead.count {
            if ahead.count <= most { return Bytes(sharing: ahead, in: offset..<offset &+ range.count) }
            // If each small run replaced `ahead`, runs of two sizes in turn would share nothing.
            return Bytes(array(of: range))
        }
        let end = min(upper, range.lowerBound &+ most)
        if end &- range.upperBound < range.count { return Bytes(array(of: range)) }
        (ahead, aheadStart) = (array(of: range.lowerBound..<end), range.lowerBound)
        return Bytes(sharing: ahead, in: 0..<range.count)
    }

    private func array(of range: Range<Int>) -> [UInt8] {
        unsafe storage.withUnsafeBufferPointer { unsafe Array(UnsafeBufferPointer(rebasing: $0[range])) }
    }

    /// Consumes `length` bytes at the front. Returns `false`, and consumes nothing, if not all of them have arrived.
    @inlinable
    @discardableResult
    public mutating func skip(_ length: Int) -> Bool {
        guard length >= 0, length <= count else { return false }
        lower &+= length
        return true
    }

    @inlinable
    package mutating func consume(_ expected: Bytes) -> Bool {
        guard count >= expected.count else { return false }
        for index in 0..<expected.count where storage[lower &+ index] != expected[index] { return false }
        return skip(expected.count)
    }

    /// Removes up to `length` bytes from the front for good and returns how many it removed.
    ///
    /// Unlike other consumed bytes, they are not put back when `decode` then returns `nil`. Use it for bytes that
    /// belong to no frame, such as padding and comments, and for the rest of a frame that is too long, so that it is
    /// not kept in memory until its end has arrived.
    ///
    /// Bytes that were consumed earlier in the same call of `decode` are not put back either.
    @inlinable
    @discardableResult
    public mutating func discard(_ length: Int) -> Int {
        let length = Swift.max(0, Swift.min(length, count))
        lower &+= length
        floor = lower
        return length
    }

    /// Announces that the frame at the front has `length` bytes in total, so that large frames are read in one piece.
    ///
    /// Check `length` against the limit of the codec *before* calling this. This is only a hint. Memory is reserved as
    /// the bytes arrive: at most 256 KiB or sixteen times the number of bytes that have arrived, whichever is more. So
    /// a peer cannot make the client reserve memory by announcing a large frame.
    @inlinable
    public mutating func await(_ length: Int) {
        awaited = length
    }

    package var awaitedCount: Int { awaited }

    @inlinable
    package var position: Int { lower }

    @inlinable
    package mutating func rewind(to mark: Int) {
        lower = max(mark, floor)
    }

    @inlinable
    package mutating func stopAwaiting() { awaited = 0 }

    // MARK: Filling

    /// If a frame shares the storage, the remaining bytes move to new storage: writing would copy all of it.
    /// Returns the number of bytes that `read` has stored.
    @discardableResult
    package mutating func fill(_ read: (UnsafeMutableRawBufferPointer) -> Int) -> Int {
        var none = ReceiveMemory()
        makeRoom(from: &none)
        let start = upper
        let offered = storage.count - start
        let stored = unsafe storage.withUnsafeMutableBytes {
            unsafe read(UnsafeMutableRawBufferPointer(rebasing: $0[start...]))
        }
        precondition(stored >= 0 && stored <= offered, "read more bytes than were offered")
        upper += stored
        if stored == offered {
            readSize = min(readSize * 2, Self.largestRead)
        } else if count < readSize / 8 {
            readSize = max(readSize / 2, Self.smallestRead)
        }
        // Bodies of this length can share this memory, with the rest of one that is left over. Copying them took a
        // tenth of the processor time, with 64 bodies of 16 KiB in flight.
        if latestLarge > 0 { readSize = min(readSize, max(Self.smallestRead, latestLarge * 7)) }
        (sharedLength, latestLarge) = (latestLarge, 0)
        return stored
    }

    private func makesRoomFor() -> Int {
        // At most sixteen times what has arrived: a peer that only *announces* a large frame gets little memory.
        guard awaited > count else { return max(readSize, count / 4) }
        return max(readSize, min(awaited - count, max(count * 15, Self.largestRead)))
    }

    private mutating func makeRoom(from memory: inout ReceiveMemory) {
        let wanted = makesRoomFor()
        if !ahead.isEmpty { ahead = [] }
        if isEmpty && !isShared { (lower, upper, floor) = (0, 0, 0) }
        let left = lower..<upper
        // Storage without room for the awaited frame must at least double: else each piece would copy the whole frame.
        let suits = awaited <= storage.count - lower || left.count + wanted < 2 * storage.count
        let hasRoom = storage.count - upper >= wanted / 4 && suits
        if hasRoom && !isShared { return }
        // Somewhat less is enough, or every few bytes that are left over would need new memory.
        let minimum = left.count + (awaited > count ? wanted : wanted / 2)
        let most = sharedLength > 0 ? max(left.count + wanted, sharedLength * 8) : .max
        var fresh = memory.take(left.count + wanted, atLeast: minimum, atMost: most)
        unsafe fresh.withUnsafeMutableBytes { fresh in
            unsafe storage.withUnsafeBytes { unsafe fresh.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[left])) }
        }
        swap(&storage, &fresh)
        if isShared { memory.addLent(fresh) } else { memory.add(fresh) }
        (lower, upper, floor, isShared) = (0, left.count, 0, false)
    }

    /// Takes space from `memory` if too little is free, so that many buffers can take turns with it.
    package mutating func borrow(_ memory: inout ReceiveMemory) { makeRoom(from: &memory) }

    /// Called at the end of a batch, so that an idle link keeps no more memory than it needs.
    package mutating func giveBack(to memory: inout ReceiveMemory) {
        if !ahead.isEmpty { ahead = [] }
        if isEmpty && isShared {
            memory.addLent(exchange(&storage, with: []))
            (lower, upper, floor, awaited, isShared) = (0, 0, 0, 0, false)
        } else if !isShared, count <= Self.smallLeftOver, storage.count > Self.smallLeftOver {
            let left = isEmpty ? [] : Array(storage[lower..<upper])
            memory.add(exchange(&storage, with: left))
            (lower, upper, floor) = (0, left.count, 0)
        }
    }
}

extension ReceiveBuffer: CustomStringConvertible, CustomReflectable {
    /// The number of bytes, such as `12 bytes`. Never the bytes themselves: they may be secret, and the memory around
    /// them may hold those of other clients.
    public var description: String { byteSize(count) }

    /// Empty, so that `dump` does not show the bytes either.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
