import Trunkline

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The row `by hand`: what one writes in an afternoon instead of using Trunkline. An actor on the shared pool keeps
/// continuations by serial number, every request is a system call of its own on a blocking socket, every cancellation
/// a task, and a thread reads frames into an `AsyncStream`.
///
/// It is here for comparison and no model: `send` blocks a thread of the pool when the server is slow, nothing bounds
/// the stream, a cancellation never reaches the server, a server that falls silent is never noticed, and a lost
/// connection stays lost. Of Trunkline it has the values alone (so that its replies pass the same checks), and the
/// helper that starts a thread.
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
        // Ends with the stream, which ends with the connection; `disconnect` waits for it. Isolated to this actor, as
        // every task that is started here and uses `self`.
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
            // A handler cannot await, so it takes a task to reach the actor. It comes after the registration, which
            // does not leave the actor, and finds nothing once the reply is there: nobody needs to wait for it.
            Task { await cancel(serial) }
        }
    }

    private func cancel(_ serial: UInt32) {
        waiting.removeValue(forKey: serial)?.resume(throwing: CancellationError())
    }

    /// To be called when no request is in flight.
    func disconnect() async {
        shutdown(descriptor, Int32(SHUT_RDWR))  // ends the thread, and so the stream, and so the task
        await delivery?.value
        close(descriptor)
    }

    private func transmit(_ body: Bytes, _ serial: UInt32) throws {
        var frame: [UInt8] = []
        frame.reserveCapacity(FrameReader.headerSize + body.count)
        for number in [Run.type, serial, UInt32(body.count)] {
            for shift in [24, 16, 8, 0] { frame.append(UInt8(truncatingIfNeeded: number >> UInt32(shift))) }
        }
        unsafe body.withUnsafeBytes { unsafe frame.append(contentsOf: $0) }  // at once; as a sequence, byte by byte
        var written = 0
        while written < frame.count {
            let count = unsafe frame.withUnsafeBytes { [descriptor, written] in
                unsafe write(descriptor, $0.baseAddress?.advanced(by: written), $0.count - written)
            }
            if count >= 0 {
                written += count
            } else if errno != EINTR {
                throw BenchError("writing by hand", errno: errno)
            }
        }
    }

    private static let ended = BenchError("the connection of the row by hand has ended")
}

/// Cuts what comes out of a socket into frames.
private struct FrameReader {
    static let headerSize = 12

    private let descriptor: Int32
    /// `memory[start..<end]` is read and not yet handed out.
    private var memory: [UInt8]
    private var start = 0
    private var end = 0

    init(_ descriptor: Int32, largestBody: Int) {
        self.descriptor = descriptor
        memory = Array(repeating: 0, count: max(256 * 1024, Self.headerSize + largestBody))
    }

    /// Waits for the next frame; `nil` when there is none to come.
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

    /// Waits for more bytes; `false` at the end, or when a frame is larger than any reply can be.
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
