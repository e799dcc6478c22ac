import Trunkline

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The client of the row `by hand`: typical code without Trunkline.
///
/// It is a comparison, not an example to follow: `send` blocks a thread of the pool when the server is slow, the stream
/// is unbounded, a cancellation never reaches the server, a silent server is never detected, and a lost connection is
/// not replaced. It uses only value types of Trunkline, so that its responses pass the same checks.
actor ByHandClient {
    private let port: UInt16
    private let largestBody: Int
    private var descriptor: Int32 = -1
    private var lastSerial: UInt32 = 49
    private var waiting: [UInt32: CheckedContinuation<Frame, any Error>] = [:]
    private var delivery: Task<Void, Never>?
    private var hasEnded = false

    init(_ run: Run) {
        port = run.port
        largestBody = run.payload
    }

    func connect() throws {
        descriptor = try connectedSocket(port)
        let (frames, feed) = AsyncStream.makeStream(of: Frame.self)
        let code = startThread(named: "by-hand-reader") { [descriptor, largestBody] in
            var reader = FrameReader(descriptor, largestBody: largestBody)
            while let frame = reader.next() { feed.yield(frame) }
            feed.finish()
        }
        guard code == 0 else { throw Self.ended }
        // Ends with the stream, which ends with the connection; `disconnect` waits for it.
        delivery = Task {
            for await frame in frames { waiting.removeValue(forKey: UInt32(frame.serial))?.resume(returning: frame) }
            hasEnded = true
            for continuation in waiting.values { continuation.resume(throwing: Self.ended) }
            waiting = [:]
        }
    }

    func send(_ body: Bytes) async throws -> Frame {
        guard !hasEnded else { throw Self.ended }
        lastSerial = lastSerial == .max ? 50 : lastSerial + 1
        let serial = lastSerial
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                waiting[serial] = continuation
                do {
                    try transmit(body, serial)
                } catch {
                    waiting.removeValue(forKey: serial)?.resume(throwing: error)
                }
            }
        } onCancel: {
            // The handler cannot await. The task runs after the registration, which does not leave the actor. After the
            // response it finds nothing, so no caller has to wait for it.
            Task { await cancel(serial) }
        }
    }

    private func cancel(_ serial: UInt32) {
        waiting.removeValue(forKey: serial)?.resume(throwing: CancellationError())
    }

    /// Call it when no request is in flight.
    func disconnect() async {
        shutdown(descriptor, Int32(SHUT_RDWR))  // ends the thread, then the stream, then the task
        await delivery?.value
        close(descriptor)
    }

    private func transmit(_ body: Bytes, _ serial: UInt32) throws {
        var frame: [UInt8] = []
        frame.reserveCapacity(FrameReader.headerSize + body.count)
        for number in [Run.type, serial, UInt32(body.count)] {
            for shift in [24, 16, 8, 0] { frame.append(UInt8(truncatingIfNeeded: number >> UInt32(shift))) }
        }
        unsafe body.withUnsafeBytes { unsafe frame.append(contentsOf: $0) }  // one copy, not byte by byte
        var written = 0
        while written < frame.count {
            let count = unsafe frame.withUnsafeBytes { [descriptor, written] in
                unsafe write(descriptor, $0.baseAddress?.advanced(by: written), $0.count - written)
            }
            if count >= 0 {
                written += count
            } else if errno != EINTR {
                throw BenchError("write of the hand-written client", errno: errno)
            }
        }
    }

    private static let ended = BenchError("the connection of the hand-written client has ended")
}

private struct FrameReader {
    static let headerSize = 12

    private let descriptor: Int32
    /// `memory[start..<end]` holds the bytes that were read and not yet decoded.
    private var memory: [UInt8]
    private var start = 0
    private var end = 0

    init(_ descriptor: Int32, largestBody: Int) {
        self.descriptor = descriptor
        memory = Array(repeating: 0, count: max(256 * 1024, Self.headerSize + largestBody))
    }

    mutating func next() -> Frame? {
        while true {
            if end - start >= Self.headerSize {
                let bodyStart = start + Self.headerSize
                let length = Int(number(at: start + 8))
                if end - bodyStart >= length {
                    defer { start = bodyStart + length }
                    let body = Bytes(Array(memory[bodyStart..<bodyStart + length]))
                    let serial = SerialNumber(number(at: start + 4))
                    return Frame(.response, type: number(at: start), serial: serial, body: body)
                }
            }
            guard fill() else { return nil }
        }
    }

    private func number(at index: Int) -> UInt32 { memory[index..<index + 4].reduce(0) { $0 << 8 | UInt32($1) } }

    /// Returns `false` at the end, or if a frame is larger than the largest response.
    private mutating func fill() -> Bool {
        unsafe memory.withUnsafeMutableBytes { [start, end] in
            unsafe $0.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[start..<end]))
        }
        end -= start
        start = 0
        while true {
            let count = unsafe memory.withUnsafeMutableBytes { [end] in
                unsafe read(descriptor, $0.baseAddress?.advanced(by: end), $0.count - end)
            }
            if count < 0 && errno == EINTR { continue }
            end += max(0, count)
            return count > 0
        }
    }
}
