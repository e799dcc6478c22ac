#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The upper limit: one thread with frames in flight on a bare socket. Responses are in order: one counter of serials.
@safe
final class SocketLoop {
    private let descriptor: Int32
    private let concurrency: Int
    private let frameSize: Int
    /// `slots` frames, complete except for their serials. Frame n is sent from slot n % slots.
    private let frames: UnsafeMutableRawBufferPointer
    private let slots: Int
    private let received: UnsafeMutableRawBufferPointer

    /// Since the start of the connection: frames requested, frames with a slot, bytes of frames written.
    private var asked = 0
    private var issued = 0
    private var written = 0
    private var answered = 0
    /// Bytes of an incomplete header at the front of `received`.
    private var left = 0
    /// Missing bytes of a body whose header was checked.
    private var bodyLeft = 0
    /// When the frames in flight were requested, in runs; the oldest is at `firstRun % concurrency`.
    private var runs: [(time: UInt64, count: Int)]
    private var firstRun = 0
    private var lastRun = 0

    private static let headerSize = 12

    init(_ run: Run) throws {
        concurrency = run.concurrency
        frameSize = Self.headerSize + run.payload
        slots = max(1, min(concurrency, 1024 * 1024 / frameSize))
        runs = Array(repeating: (0, 0), count: concurrency)
        unsafe received = .allocate(byteCount: 256 * 1024, alignment: 16)
        unsafe frames = .allocate(byteCount: slots * frameSize, alignment: 16)
        for byte in unsafe frames.indices { unsafe frames[byte] = UInt8(truncatingIfNeeded: byte) }
        for slot in 0..<slots {
            unsafe frames.storeBytes(of: Run.type.bigEndian, toByteOffset: slot * frameSize, as: UInt32.self)
            let length = UInt32(run.payload).bigEndian
            unsafe frames.storeBytes(of: length, toByteOffset: slot * frameSize + 8, as: UInt32.self)
        }
        descriptor = try connectedSocket(run.port)
    }

    deinit {
        close(descriptor)
        unsafe frames.deallocate()
        unsafe received.deallocate()
    }

    func drive(_ quota: Quota, _ histogram: Histogram) throws -> Int {
        let first = answered
        var now = monotonicNow()
        let deadline = quota.deadline(from: now) ?? .max
        var end = quota.limit == .max ? Int.max : first + quota.limit
        while answered < end {
            ask(upTo: end, now)
            var isBlocked = false
            while !isBlocked, issue() || written < issued * frameSize { isBlocked = try !write() }
            try read(mayWait: !isBlocked)
            now = monotonicNow()
            settle(now, histogram)
            if now >= deadline { end = min(end, asked) }
        }
        return answered - first
    }

    private func ask(upTo end: Int, _ now: UInt64) {
        let count = min(answered + concurrency, end) - asked
        guard count > 0 else { return }
        asked += count
        runs[lastRun % concurrency] = (now, count)
        lastRun += 1
    }

    /// Gives serials to requested frames that have a free slot. Returns `false` if there are none.
    private func issue() -> Bool {
        let count = min(asked, written / frameSize + slots) - issued
        guard count > 0 else { return false }
        for number in issued..<issued + count {
            let offset = (number % slots) * frameSize + 4
            unsafe frames.storeBytes(of: Self.serial(number).bigEndian, toByteOffset: offset, as: UInt32.self)
        }
        issued += count
        return true
    }

    private static func serial(_ number: Int) -> UInt32 { 50 + UInt32(number % (1 << 31)) }

    private func write() throws -> Bool {
        let start = written % (slots * frameSize)
        let length = min(issued * frameSize - written, slots * frameSize - start)
        let count = unsafe send(descriptor, frames.baseAddress?.advanced(by: start), length, Int32(MSG_DONTWAIT))
        if count >= 0 {
            written += count
            return count == length
        }
        guard isPassing(errno) else { throw BenchError("write", errno: errno) }
        return false
    }

    /// Waits until the socket is readable, or writable if there is more to write.
    private func read(mayWait: Bool) throws {
        let flags = mayWait ? 0 : Int32(MSG_DONTWAIT)
        let free = unsafe UnsafeMutableRawBufferPointer(rebasing: received[left...])
        let count = unsafe recv(descriptor, free.baseAddress, free.count, flags)
        if count > 0 { return try take(left + count) }
        if count == 0 { throw BenchError("the server has closed the connection") }
        guard isPassing(errno) else { throw BenchError("read", errno: errno) }
        var watched = pollfd(fd: descriptor, events: Int16(POLLIN | POLLOUT), revents: 0)
        _ = unsafe poll(&watched, 1, -1)
    }

    private func take(_ count: Int) throws {
        var position = min(bodyLeft, count)
        bodyLeft -= position
        if position > 0, bodyLeft == 0 { answered += 1 }
        while count - position >= Self.headerSize {
            let header = unsafe UnsafeRawBufferPointer(rebasing: received[position..<position + Self.headerSize])
            let type = unsafe UInt32(bigEndian: header.loadUnaligned(as: UInt32.self))
            let serial = unsafe UInt32(bigEndian: header.loadUnaligned(fromByteOffset: 4, as: UInt32.self))
            let length = unsafe UInt32(bigEndian: header.loadUnaligned(fromByteOffset: 8, as: UInt32.self))
            guard type == Run.type, serial == Self.serial(answered), length == frameSize - Self.headerSize else {
                throw BenchError("unexpected response: type \(type), serial \(serial), length \(length)")
            }
            position += Self.headerSize
            let body = min(Int(length), count - position)
            position += body
            bodyLeft = Int(length) - body
            if bodyLeft == 0 { answered += 1 }
        }
        left = count - position
        if left > 0 { unsafe received.copyMemory(from: UnsafeRawBufferPointer(rebasing: received[position..<count])) }
    }

    private func settle(_ now: UInt64, _ histogram: Histogram) {
        while settled < answered {
            let run = runs[firstRun % concurrency]
            let count = min(run.count, answered - settled)
            histogram.record(now - run.time, times: count, caller: 0)
            settled += count
            runs[firstRun % concurrency].count -= count
            if count == run.count { firstRun += 1 }
        }
    }

    private var settled = 0
}
