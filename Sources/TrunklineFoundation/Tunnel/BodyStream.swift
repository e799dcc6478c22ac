import Foundation
import Trunkline

/// A body that can be read once.
final class BodyStream: Sendable {
    private let begun = Lock(false)
    private let body: @Sendable ((Data) async throws -> Void) async throws -> Void

    init(_ body: @escaping @Sendable ((Data) async throws -> Void) async throws -> Void) { self.body = body }

    convenience init<Pieces: AsyncSequence & Sendable>(_ pieces: Pieces) where Pieces.Element == Data {
        self.init { take in for try await piece in pieces { try await take(piece) } }
    }

    /// What a stream of Foundation holds.
    convenience init(reading stream: InputStream) {
        let input = StreamReader(stream)
        self.init { take in
            input.open()
            defer { input.close() }
            while true {
                let piece = try await input.next()
                if piece.isEmpty { break }
                try await take(piece)
            }
        }
    }

    var hasBegun: Bool { begun.withLock { $0 } }

    /// Hands its pieces to `take`.
    func run(_ take: (Data) async throws -> Void) async throws {
        let isLate = begun.withLock { begun in
            defer { begun = true }
            return begun
        }
        if isLate { throw URLError(.requestBodyStreamExhausted) }
        try await body(take)
        // A source that is cancelled may just end, as an AsyncStream does: this is no end of the body.
        try Task.checkCancellation()
    }
}

/// Reads a stream of Foundation, which may block, and for ever.
///
/// Sendable although a stream is not: it is touched on `queue` alone, one call after the other.
private struct StreamReader: @unchecked Sendable {
    private enum Reading {
        case begun
        case waiting(Continuation<Result<Data, URLError>>)
        case over
    }

    private let stream: InputStream
    /// Its own, so that a read that hangs holds up nobody else.
    private let queue = DispatchQueue(label: "trunkline.body")

    init(_ stream: InputStream) { self.stream = stream }

    func open() { queue.async { self.stream.open() } }

    /// Also after a read that hangs: it is closed when that returns.
    func close() { queue.async { self.stream.close() } }

    /// The next piece; empty at the end. A task that is cancelled does not wait for it: what comes then is dropped.
    func next() async throws(URLError) -> Data {
        let reading = Lock(Reading.begun)
        let result = await withTaskCancellationHandler {
            await withContinuation { (waiter: Continuation<Result<Data, URLError>>) in
                let isCancelled = reading.withLock { reading in
                    if case .over = reading { return true }
                    reading = .waiting(waiter)
                    return false
                }
                if isCancelled { return waiter.resume(returning: .failure(URLError(.cancelled))) }
                queue.async { Self.end(reading, self.read()) }
            }
        } onCancel: {
            Self.end(reading, .failure(URLError(.cancelled)))
        }
        return try result.get()
    }

    private static func end(_ reading: Lock<Reading>, _ result: Result<Data, URLError>) {
        let waiter = reading.withLock { reading -> Continuation<Result<Data, URLError>>? in
            defer { reading = .over }
            return if case .waiting(let waiter) = reading { waiter } else { nil }
        }
        waiter?.resume(returning: result)
    }

    private func read() -> Result<Data, URLError> {
        var bytes = [UInt8](repeating: 0, count: TunnelWire.pieceSize)
        let count = unsafe bytes.withUnsafeMutableBufferPointer { memory in
            guard let start = memory.baseAddress else { return -1 }
            return unsafe stream.read(start, maxLength: memory.count)
        }
        guard count >= 0 else {
            let reason = stream.streamError.map { "\($0)" } ?? "the stream cannot be read"
            return .failure(URLError(.requestBodyStreamExhausted, reason: reason, underlying: stream.streamError))
        }
        return .success(Data(bytes.prefix(count)))
    }
}
