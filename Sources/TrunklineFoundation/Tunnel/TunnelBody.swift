import Foundation
import TrunklineCore

enum TunnelBody: Sendable {
    case none
    case data(Data)
    case file(InputFile, URL)
    case stream(BodyStream)

    var isRepeatable: Bool {
        if case .stream(let stream) = self { !stream.hasBegun } else { true }
    }

    var count: Int? {
        switch self {
        case .none: 0
        case .data(let data): data.count
        case .file(let file, _): file.count
        case .stream: nil
        }
    }

    /// Only regular files: opening a FIFO may block forever, and it has no size. Every attempt over the link sends the
    /// file that was checked; a direct request lets `URLSession` open the path again.
    static func file(at url: URL) async throws(URLError) -> TunnelBody {
        let path = url.path(percentEncoded: false)
        guard url.isFileURL, !path.hasZeroByte else {
            throw URLError(.fileDoesNotExist, reason: "“\(path.withoutCredentials)” is not a file path")
        }
        let opened = await Disk.run { Result { () throws(TransportError) in try InputFile(at: path) } }
        switch opened {
        case .success(let file): return .file(file, url)
        case .failure(let error):
            let isMissing = error.errno == ENOENT || error.errno == ENOTDIR
            throw URLError(isMissing ? .fileDoesNotExist : .cannotOpenFile, reason: error.message)
        }
    }

    func forEachPiece(_ take: @escaping @Sendable (Data) async throws -> Void) async throws {
        switch self {
        case .none: break
        case .data(let data): try await Self.cut(data, take)
        case .file(let file, _):
            var start = 0
            while start < file.count {
                let (offset, size) = (start, min(file.count - start, TunnelWire.pieceSize))
                let piece = await Disk.run { try? file.read(size, at: offset) }
                guard let piece, !piece.isEmpty else {
                    throw URLError(.cannotOpenFile, reason: "the file became shorter while it was sent")
                }
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

    /// A URLSession needs the whole body, so a stream is collected. `timeout` is the longest wait for its next piece.
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
