import Foundation
import Trunkline

/// What a request carries.
enum TunnelBody: Sendable {
    case none
    case data(Data)
    case file(InputFile, URL)
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
        case .file(let file, _): file.count
        case .stream: nil
        }
    }

    /// A regular file that must be there: to open a FIFO could take for ever, and nothing else has a length. It is opened
    /// once, so that every attempt sends the file that was checked; directly, `URLSession` opens the path itself.
    static func file(at url: URL) async throws(URLError) -> TunnelBody {
        let path = url.path(percentEncoded: false)
        guard url.isFileURL, !path.hasZeroByte else {
            throw URLError(.fileDoesNotExist, reason: "“\(path.withoutCredentials)” is no path of a file")
        }
        let opened = await Disk.run { Result { () throws(TransportError) in try InputFile(at: path) } }
        switch opened {
        case .success(let file): return .file(file, url)
        case .failure(let error):
            let isMissing = error.errno == ENOENT || error.errno == ENOTDIR
            throw URLError(isMissing ? .fileDoesNotExist : .cannotOpenFile, reason: error.message)
        }
    }

    /// Hands it over in pieces of at most `TunnelWire.pieceSize`.
    func forEachPiece(_ take: @escaping @Sendable (Data) async throws -> Void) async throws {
        switch self {
        case .none: break
        case .data(let data): try await Self.cut(data, take)
        case .file(let file, _):
            var start = 0
            while start < file.count {
                let (offset, size) = (start, min(file.count - start, TunnelWire.pieceSize))
                let piece = await Disk.run { try? file.read(size, at: offset) }
                guard let piece, !piece.isEmpty else { throw URLError(.cannotOpenFile, reason: "the file has shrunk") }
                start += piece.count
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
    ///
    /// - Parameters:
    ///   - limit: How many bytes of a stream are collected.
    ///   - timeout: How long the next piece of a stream may take.
    func originBody(limit: Int, timeout: Duration) async throws(URLError) -> OriginBody {
        switch self {
        case .none: return .none
        case .data(let data): return .data(data)
        case .file(_, let url): return .userFile(url)
        case .stream(let stream):
            let collector = BodyCollector(limit: limit)
            let watch = ProgressWatch(within: timeout)
            let failure = await withTaskGroup(of: URLError?.self) { group in
                defer { group.cancelAll() }
                group.addTask {
                    do {
                        try await stream.run { piece in
                            try await collector.append(piece)
                            watch.note()
                        }
                        return nil
                    } catch { return URLError(sourceFailure: error) }
                }
                group.addTask {
                    do {
                        try await watch.stall()
                        return URLError(.timedOut, reason: "no piece of the request's body within \(timeout)")
                    } catch { return URLError(.cancelled) }
                }
                return await group.next() ?? nil
            }
            if let failure { throw failure }
            return collector.body
        }
    }
}
