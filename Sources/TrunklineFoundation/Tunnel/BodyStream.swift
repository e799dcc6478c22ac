import Foundation
import TrunklineCore

final class BodyStream: Sendable {
    private let begun = Lock(false)
    private let body: @Sendable ((Data) async throws -> Void) async throws -> Void

    init(_ body: @escaping @Sendable ((Data) async throws -> Void) async throws -> Void) { self.body = body }

    convenience init<Pieces: AsyncSequence & Sendable>(_ pieces: Pieces) where Pieces.Element == Data {
        self.init { take in for try await piece in pieces { try await take(piece) } }
    }

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

    /// - Throws: `requestBodyStreamExhausted` on the second call; errors of the source and of `take`.
    func run(_ take: (Data) async throws -> Void) async throws {
        let isLate = begun.withLock { begun in
            defer { begun = true }
            return begun
        }
        if isLate { throw URLError(.requestBodyStreamExhausted) }
        try await body(take)
        // A cancelled source may end without an error, as AsyncStream does. That is not the end of the body.
        try Task.checkCancellation()
    }
}

/// Reads an `InputStream`, which may block for an unlimited time.
///
/// Sendable although `InputStream` is not: it is accessed only on `queue`, one call after another.
private struct StreamReader: @unchecked Sendable {
    private enum Reading {
        case begun
        case waiting(Continuation<Result<Data, URLError>>)
        case over
    }

    private let stream: InputStream
    /// One queue per stream, so that a blocked read delays no other stream.
    private let queue = DispatchQueue(label: "trunkline.body")

    init(_ stream: InputStream) { self.stream = stream }

    func open() { queue.async { self.stream.open() } }

    /// If a read is blocked, the stream is closed when that returns.
    func close() { queue.async { self.stream.close() } }

    /// Empty at the end. A cancelled task returns at once; the piece that arrives later is discarded.
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
