import Foundation
import TrunklineCore

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Buffers the body of a response between a URLSession, which has no back-pressure, and readers that may be slow: the
/// beginning in memory, the rest in an unlinked file.
///
/// The one writer may wait for the disk but for nothing else. Each piece goes to one reader. Invariant: the pieces in
/// memory come before the bytes in the file.
final class BodySpool: Sendable {
    private struct State {
        var pieces = Deque<Data>()
        var held = 0
        var file: TemporaryFile?
        /// The unread bytes in the file, as offsets since the file was last empty. Byte n is stored at n modulo
        /// `limit`, so that the file does not grow with the body while a reader stays a little behind.
        var unread = 0..<0
        var isReading = false
        var end: Result<Void, URLError>?
        var isAbandoned = false
        var waiters: [Continuation<Void>] = []
    }

    private enum Step {
        case done(Result<Data?, URLError>)
        case read(TemporaryFile, Range<Int>)
        case wait
    }

    private let state = Lock(State())
    private let memory: Int
    private let limit: Int
    private let readSize: Int

    /// All in bytes. `limit` is that of the file.
    init(memory: Int, limit: Int, readSize: Int = 256 * 1024) {
        self.memory = memory
        self.limit = limit
        self.readSize = readSize
    }

    var held: (memory: Int, file: Int) { state.withLock { ($0.held, $0.unread.count) } }

    /// - Throws: `dataLengthExceedsMaximum` if the file is full; an error if the disk fails.
    func append(_ data: Data) throws(URLError) {
        guard !data.isEmpty else { return }
        let file: (TemporaryFile, Int)?
        do throws(URLError) { file = try place(data) } catch {
            finish(.failure(error))
            throw error
        }
        if let (file, offset) = file {
            do throws(TransportError) {
                try write(data, to: file, at: offset)
            } catch {
                let error = URLError(.cannotWriteToFile, userInfo: [NSUnderlyingErrorKey: error])
                finish(.failure(error))
                throw error
            }
            state.withLock { state in
                // The body may have been abandoned in the meantime.
                if !state.isAbandoned { state.unread = state.unread.lowerBound..<offset + data.count }
            }
        }
        wake()
    }

    private func place(_ data: Data) throws(URLError) -> (TemporaryFile, Int)? {
        let (memory, limit) = (memory, limit)
        enum Place { case held, file(TemporaryFile?, Int), full }
        let place = state.withLock { state -> Place in
            if state.isAbandoned || state.end != nil { return .held }
            if state.unread.isEmpty, (state.held + data.count <= memory) || (state.held == 0) {
                state.pieces.append(data)
                state.held += data.count
                return .held
            }
            // All bytes of the file were read: start again at its beginning.
            if state.unread.isEmpty { state.unread = 0..<0 }
            guard state.unread.count + data.count <= limit else { return .full }
            return .file(state.file, state.unread.upperBound)
        }
        switch place {
        case .held: return nil
        case .full:
            throw URLError(
                .dataLengthExceedsMaximum,
                reason: "more than \(limit) bytes of the body wait for a slow reader"
            )
        case .file(let file?, let offset):
            if offset == 0 { file.empty() }
            return (file, offset)
        case .file(nil, let offset):
            do throws(TransportError) {
                let file = try Disk.makeFile(isNamed: false)
                state.withLock { if !$0.isAbandoned { $0.file = file } }
                return (file, offset)
            } catch {
                throw URLError(.cannotCreateFile, userInfo: [NSUnderlyingErrorKey: error])
            }
        }
    }

    private func write(_ data: Data, to file: TemporaryFile, at offset: Int) throws(TransportError) {
        let limit = limit
        var place = offset % limit
        for region in data.regions {
            let result = unsafe region.withUnsafeBytes { bytes in
                do throws(TransportError) {
                    let first = min(bytes.count, limit - place)
                    unsafe try file.write(UnsafeRawBufferPointer(rebasing: bytes[..<first]), at: place)
                    unsafe try file.write(UnsafeRawBufferPointer(rebasing: bytes[first...]), at: 0)
                    return Result<Void, TransportError>.success(())
                } catch {
                    return .failure(error)
                }
            }
            try result.get()
            place = (place + region.count) % limit
        }
    }

    func finish(_ end: Result<Void, URLError>) {
        state.withLock { if $0.end == nil { $0.end = end } }
        wake()
    }

    private func wake() {
        let waiters = state.withLock { state in
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    func next() async throws(URLError) -> Data? {
        while true {
            switch step() {
            case .done(let result): return try result.get()
            case .read(let file, let range): return try await read(range, from: file)
            case .wait:
                await withContinuation { (waiter: Continuation<Void>) in
                    let isLate = state.withLock { state in
                        // Checked again: a piece that arrived since `step()` did not wake this waiter.
                        let hasNews = !state.pieces.isEmpty || state.end != nil || state.isAbandoned
                        guard !hasNews, state.unread.isEmpty || state.isReading else { return true }
                        state.waiters.append(waiter)
                        return false
                    }
                    if isLate { waiter.resume() }
                }
            }
        }
    }

    var isAtEnd: Bool {
        state.withLock { state in
            guard case .success? = state.end else { return false }
            return state.pieces.isEmpty && state.unread.isEmpty
        }
    }

    /// Readers receive `error`, unless they have read everything: then the end stays as it was.
    func abandon(_ error: URLError) {
        state.withLock { state in
            let isOver = state.end != nil && state.pieces.isEmpty && state.unread.isEmpty
            state.isAbandoned = true
            state.pieces.removeAll()
            (state.held, state.file, state.unread) = (0, nil, 0..<0)
            if !isOver { state.end = .failure(error) }
        }
        wake()
    }

    private func step() -> Step {
        let (limit, readSize) = (limit, readSize)
        return state.withLock { state in
            if let piece = state.pieces.popFirst() {
                state.held -= piece.count
                return .done(.success(piece))
            }
            if !state.unread.isEmpty, let file = state.file {
                guard !state.isReading else { return .wait }
                state.isReading = true
                let start = state.unread.lowerBound
                return .read(file, state.unread.prefix(min(readSize, limit - start % limit)))
            }
            switch state.end {
            case nil: return .wait
            case .success?: return .done(.success(nil))
            case .failure(let error)?: return .done(.failure(error))
            }
        }
    }

    private func read(_ range: Range<Int>, from file: TemporaryFile) async throws(URLError) -> Data {
        let start = range.lowerBound % limit
        let result = await Disk.run { file.read(start..<start + range.count) }
        state.withLock { state in
            state.isReading = false
            if !state.isAbandoned { state.unread = range.upperBound..<state.unread.upperBound }
        }
        wake()
        return try result.get()
    }
}

extension URLError {
    init(_ code: Code, reason: String, underlying: (any Error)? = nil) {
        var info: [String: any Sendable] = [NSLocalizedDescriptionKey: reason.asMessage]
        info[NSUnderlyingErrorKey] = underlying
        self.init(code, userInfo: info)
    }
}
