/// The memory that the sockets of an event loop take turns to read into.
///
/// A large body shares the memory that it was read into. That memory is remembered here and used for a later read, once
/// every body in it was deallocated. If it were freed instead, the allocator would return it to the system, and each of
/// its pages would cost a page fault in the next read: 3 to 16 faults per body of 64 KiB.
package struct ReceiveMemory: Sendable {
    /// Memory that no body shares; empty for none.
    private var spare: [UInt8] = []
    /// Memory that bodies shared when it was added, the oldest first.
    private var lent = Deque<[UInt8]>()
    /// The total size of `lent`, in bytes. Invariant: at most `maximumLent`.
    package private(set) var lentByteCount = 0
    /// The length that `lent` reaches before its oldest memory is used again. It grows when that is still shared.
    private var depth = 1
    /// Whether memory was lent since the last `trim`, and the time of the last `trim` that found so.
    private var wasLent = false
    private var lastLent = Instant(nanoseconds: 0)

    /// The limit of `lentByteCount`: 16 reads of the largest usual size.
    package static let maximumLent = 4 * 1024 * 1024
    /// Larger runs of memory, for single large frames, are released after use.
    package static let maximumSize = maximumLent / 4
    /// How long memory of earlier bodies is kept without another large body.
    package static let keepNanoseconds: Int64 = 100_000_000

    /// Whether memory that bodies shared is used again.
    private let reusesLent: Bool

    package init(reusesLent: Bool = true) { self.reusesLent = reusesLent }

    /// The size in bytes of the memory that no body shares.
    package var spareByteCount: Int { spare.count }

    /// Whether memory of earlier bodies is kept, so that `trim` has to be called.
    package var hasLent: Bool { !lent.isEmpty }

    /// Returns memory that nothing else refers to. The content is unspecified.
    ///
    /// - Parameters:
    ///   - size: The size of new memory, in bytes.
    ///   - minimum: The size from which on earlier memory is used again.
    ///   - maximum: The size up to which earlier memory is used again.
    mutating func take(_ size: Int, atLeast minimum: Int, atMost maximum: Int = .max) -> [UInt8] {
        if spare.count >= minimum, spare.count <= maximum { return exchange(&spare, with: []) }
        if lent.count >= depth, var oldest = lent.popFirst() {
            lentByteCount -= oldest.count
            if oldest.count <= maximum, reuse(&oldest, for: minimum) { return oldest }
        }
        return unsafe [UInt8](unsafeUninitializedCapacity: size) { _, initialized in
            // `ReceiveBuffer.fill` writes the bytes before anything reads them.
            initialized = size
        }
    }

    /// Makes `memory` available again. Bodies that share it keep it; `memory` is then new memory of the same size.
    /// Returns `false` if its size does not suit `minimum`.
    private mutating func reuse(_ memory: inout [UInt8], for minimum: Int) -> Bool {
        let count = memory.count
        // Much more memory than wanted would make `ReceiveBuffer.readBytes` copy the bodies.
        guard count >= minimum, count / 4 <= minimum else { return false }
        let address = memory.address
        // The array itself finds out whether a body still shares the storage, in the way that makes every array safe
        // to share between threads: if so, it leaves the storage to the body and takes new storage of the same size.
        memory.removeAll(keepingCapacity: true)
        if memory.address != address { depth += 1 }
        memory.append(addingCapacity: count) { free in
            // As above: written before it is read.
            unsafe free.withUnsafeMutableBufferPointer { _, initialized in initialized = count }
        }
        return true
    }

    /// Adds memory that no body shares. The largest is kept, up to `maximumSize`.
    mutating func add(_ memory: consuming [UInt8]) {
        if memory.count > spare.count, memory.count <= Self.maximumSize { spare = memory }
    }

    /// Adds memory that bodies share. It is not remembered if it exceeds `maximumSize` or is not to be used again.
    mutating func addLent(_ memory: consuming [UInt8]) {
        let count = memory.count
        guard reusesLent, count <= Self.maximumSize else { return }
        lent.append(memory)
        lentByteCount += count
        wasLent = true
        while lentByteCount > Self.maximumLent, let oldest = lent.popFirst() {
            lentByteCount -= oldest.count
            depth = lent.count
        }
    }

    /// Releases the memory of earlier bodies if none was added for `keepNanoseconds`. An event loop over sockets calls
    /// it in every turn.
    package mutating func trim(at now: Instant) {
        guard hasLent else { return }
        if wasLent {
            (wasLent, lastLent) = (false, now)
        } else if now.nanoseconds - lastLent.nanoseconds >= Self.keepNanoseconds {
            lent.removeAll()
            (lentByteCount, depth) = (0, 1)
        }
    }
}

extension [UInt8] {
    /// The address of the elements, for comparison only.
    fileprivate var address: UInt { unsafe withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) } }
}

extension ReceiveMemory: CustomReflectable {
    /// Empty: reflection must not reveal what any client received.
    package var customMirror: Mirror { Mirror(self, children: []) }
}
