struct ByteQueue {
    private var storage: [UInt8] = []
    private var head = 0

    var count: Int { storage.count - head }

    mutating func append(_ bytes: Slice<UnsafeRawBufferPointer>) {
        unsafe storage.append(contentsOf: bytes)
    }

    mutating func take(_ count: Int, into buffer: UnsafeMutableRawBufferPointer) {
        unsafe storage.withUnsafeBytes { all in
            unsafe buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: all[head..<head + count]))
        }
        head += count
        if head == storage.count {
            storage.removeAll(keepingCapacity: true)
            head = 0
        } else if head >= 4096, head >= storage.count / 2 {
            storage.removeSubrange(..<head)
            head = 0
        }
    }

    mutating func removeAll() { self = ByteQueue() }
}
