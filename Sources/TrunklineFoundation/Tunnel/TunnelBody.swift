import Foundation
import Trunkline
import TrunklineCore
import TrunklineIO

/// What a request carries.
enum TunnelBody: Sendable {
    case none
    case data(Data)
    case file(URL, count: Int)
    case stream(BodyStream)

    /// Whether it can be sent once more.
    var isRepeatable: Bool {
        if case .stream(let stream) = self { !stream.hasBegun } else { true }
    }

    /// How long it is, if that is known.
    var count: Int? {
        switch self {
        case .none: 0
        case .data(let data): data.count
        case .file(_, let count): count
        case .stream: nil
        }
    }

    /// A file that must be there.
    static func file(at url: URL) async throws(URLError) -> TunnelBody {
        let count = await Disk.run { () -> Int? in
            let attributes = try? FileManager.default.attributesOfItem(atPath: url.path)
            return (attributes?[.size] as? NSNumber)?.intValue
        }
        guard let count else { throw URLError(.fileDoesNotExist, reason: "there is no file at \(url.path)") }
        return .file(url, count: count)
    }

    /// Hands it over in pieces of at most `TunnelWire.pieceSize`.
    func forEachPiece(_ take: @escaping @Sendable (Data) async throws -> Void) async throws {
        switch self {
        case .none: break
        case .data(let data): try await Self.cut(data, take)
        case .file(let url, let count):
            let file = await Disk.run { try? FileHandle(forReadingFrom: url) }
            guard let file else { throw URLError(.cannotOpenFile) }
            var left = count
            while left > 0 {
                let size = min(left, TunnelWire.pieceSize)
                let piece = await Disk.run { try? file.read(upToCount: size) }
                guard let piece, !piece.isEmpty else { throw URLError(.cannotOpenFile, reason: "the file has shrunk") }
                left -= piece.count
                try await take(piece)
            }
        case .stream(let stream): try await stream.run { try await Self.cut($0, take) }
        }
    }

    private static func cut(_ data: Data, _ take: (Data) async throws -> Void) async throws {
        var rest = data[...]
        while !rest.isEmpty {
            try await take(Data(rest.prefix(TunnelWire.pieceSize)))
            rest = rest.dropFirst(TunnelWire.pieceSize)
        }
    }

    /// For a URLSession, which must know the whole of it.
    func originBody(limit: Int) async throws(URLError) -> OriginBody {
        switch self {
        case .none: return .none
        case .data(let data): return .data(data)
        case .file(let url, _): return .userFile(url)
        case .stream(let stream):
            let collector = BodyCollector(limit: limit)
            do { try await stream.run { try await collector.append($0) } } catch {
                throw URLError(sourceFailure: error)
            }
            return collector.body
        }
    }
}

/// A body that can be read once.
final class BodyStream: Sendable {
    private let begun = Lock(false)
    private let body: @Sendable ((Data) async throws -> Void) async throws -> Void

    init(_ body: @escaping @Sendable ((Data) async throws -> Void) async throws -> Void) { self.body = body }

    convenience init<Pieces: AsyncSequence & Sendable>(_ pieces: Pieces) where Pieces.Element == Data {
        self.init { take in for try await piece in pieces { try await take(piece) } }
    }

    /// What a stream of Foundation holds, read where it may block.
    convenience init(reading stream: InputStream) {
        let input = Input(stream: stream)
        self.init { take in
            await Disk.run { input.stream.open() }
            let pieces = { await Disk.run { input.read() } }
            while let piece = try await pieces().get(), !piece.isEmpty { try await take(piece) }
            await Disk.run { input.stream.close() }
        }
    }

    /// Sendable although a stream is not: it is read by one task, one piece after the other.
    private struct Input: @unchecked Sendable {
        let stream: InputStream

        /// The next piece; empty at the end.
        func read() -> Result<Data?, URLError> {
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

    var hasBegun: Bool { begun.withLock { $0 } }

    func run(_ take: (Data) async throws -> Void) async throws {
        let isLate = begun.withLock { begun in
            defer { begun = true }
            return begun
        }
        if isLate { throw URLError(.requestBodyStreamExhausted) }
        try await body(take)
    }
}

extension URLError {
    /// What the caller's own source of a body threw, or what was thrown on the way.
    init(sourceFailure error: any Error) {
        switch error {
        case let error as URLError: self = error
        case is CancellationError: self = URLError(.cancelled)
        case let error as ClientError: self = URLError(error)
        default:
            self = URLError(
                .requestBodyStreamExhausted,
                reason: "the source of the request's body failed",
                underlying: error
            )
        }
    }

    /// What a URLSession would have said.
    init(_ error: ClientError) {
        let code: Code =
            switch error.code {
            case .cancelled: .cancelled
            case .timedOut: .timedOut
            case .connectionLost: .networkConnectionLost
            case .unavailable: .cannotConnectToHost
            case .closed: error.fate == .notSent ? .cannotConnectToHost : .networkConnectionLost
            case .rejected, .protocolViolation: .badServerResponse
            case .invalidRequest: .dataLengthExceedsMaximum
            case .overloaded, .notCached: .cannotLoadFromNetwork
            case .tlsFailed: .secureConnectionFailed
            }
        self.init(code, reason: "\(error)", underlying: error)
    }
}
