/// The memory that sockets read into in turn. It is used again once the bodies that share it were deallocated. If it
/// were freed, each page would cost a page fault in the next read: 3 to 16 per body of 64 KiB.
package struct ReceiveMemory: Sendable {
    private var spare: [UInt8] = []
    /// Bodies shared it when it was added. The oldest is first.
    private var lent = Deque<[UInt8]>()
    /// Invariant: at most `maximumLent`.
    private(set) var lentByteCount = 0
    /// The length of `lent` at which its oldest memory is used again. Grows when that is still shared.
    private var depth = 1
    private var wasLent = false
    private var lastLent = Instant(nanoseconds: 0)

    static let maximumLent = 4 * 1024 * 1024
    /// Larger runs of memory, for single large frames, are released after use.
    static let maximumSize = maximumLent / 4
    static let keepNanoseconds: Int64 = 100_000_000

    private let reusesLent: Bool

    package init(reusesLent: Bool = true) { self.reusesLent = reusesLent }

    var spareByteCount: Int { spare.count }

    var hasLent: Bool { !lent.isEmpty }

    /// The content is unspecified. Earlier memory of `minimum` to `maximum` bytes is used again.
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

    /// If bodies share `memory`, it becomes new memory. Returns `false` if its size does not suit `minimum`.
    private mutating func reuse(_ memory: inout [UInt8], for minimum: Int) -> Bool {
        let count = memory.count
        // Much more memory than wanted would make `ReceiveBuffer.readBytes` copy the bodies.
        guard count >= minimum, count / 4 <= minimum else { return false }
        let address = memory.address
        // The array itself finds out whether a body shares the storage, in the way that makes arrays safe to share
        // between threads: if so, it leaves the storage to the body and takes new storage of the same size.
        memory.removeAll(keepingCapacity: true)
        if memory.address != address { depth += 1 }
        memory.append(addingCapacity: count) { free in
            // As above: written before it is read.
            unsafe free.withUnsafeMutableBufferPointer { _, initialized in initialized = count }
        }
        return true
    }

    mutating func add(_ memory: consuming [UInt8]) {
        if memory.count > spare.count, memory.count <= Self.maximumSize { spare = memory }
    }

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

    mutating func trim(at now: Instant) {
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
    fileprivate var address: UInt { unsafe withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) } }
}

extension ReceiveMemory: CustomReflectable {
    /// Empty: reflection must not reveal what any client received.
    package var customMirror: Mirror { Mirror(self, children: []) }
}
