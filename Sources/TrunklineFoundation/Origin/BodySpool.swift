import Foundation
import Trunkline

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The body of one response between a URLSession, which cannot be held up, and a consumer that may be slow: a little of it
/// in memory, the rest in an unlinked file, in order.
///
/// One writer, which may be kept waiting by the disk and by nothing else; any number of readers, of which each piece goes
/// to one. Invariant: what is in memory comes before what is in the file.
final class BodySpool: Sendable {
    private struct State {
        var pieces = Deque<Data>()
        /// Bytes in `pieces`.
        var held = 0
        var file: TemporaryFile?
        /// The bytes that are not read yet and not in memory, counted from where the file last began anew. Byte n is at n
        /// modulo `limit`: a reader that is always a little behind does not let the file grow with the body.
        var unread = 0..<0
        /// One reader is reading from the file.
        var isReading = false
        /// How the body ended; readers learn of it when they have everything.
        var end: Result<Void, URLError>?
        /// Nobody reads any more.
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

    /// - Parameters:
    ///   - memory: Bytes that are held in memory.
    ///   - limit: Bytes that are held in the file.
    ///   - readSize: Bytes that are read from the file at a time.
    init(memory: Int, limit: Int, readSize: Int = 256 * 1024) {
        self.memory = memory
        self.limit = limit
        self.readSize = readSize
    }

    /// How many bytes are held in memory and in the file.
    var held: (memory: Int, file: Int) { state.withLock { ($0.held, $0.unread.count) } }

    // MARK: Writing

    /// Adds a piece.
    ///
    /// - Throws: When there is no more room, or the disk fails.
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
                // It may have been abandoned meanwhile.
                if !state.isAbandoned { state.unread = state.unread.lowerBound..<offset + data.count }
            }
        }
        wake()
    }

    /// Where to write `data`; `nil` when it is held in memory.
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
            // Everything in it is read: it begins anew.
            if state.unread.isEmpty { state.unread = 0..<0 }
            guard state.unread.count + data.count <= limit else { return .full }
            return .file(state.file, state.unread.upperBound)
        }
        switch place {
        case .held: return nil
        case .full:
            throw URLError(.dataLengthExceedsMaximum, reason: "more than \(limit) bytes wait for a slow reader")
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

    /// Nothing more comes. Only the first call counts.
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

    // MARK: Reading

    /// The next piece; `nil` at the end.
    func next() async throws(URLError) -> Data? {
        while true {
            switch step() {
            case .done(let result): return try result.get()
            case .read(let file, let range): return try await read(range, from: file)
            case .wait:
                await withContinuation { (waiter: Continuation<Void>) in
                    let isLate = state.withLock { state in
                        // What came since the look above would not wake it.
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

    /// Whether everything has come and is in hand, and nothing failed.
    var isAtEnd: Bool {
        state.withLock { state in
            guard case .success? = state.end else { return false }
            return state.pieces.isEmpty && state.unread.isEmpty
        }
    }

    /// Drops what is held, and what is still to come. Readers get `error`, unless they have everything: then it ends as it
    /// did.
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
    /// An error that says more than its code, in one line.
    init(_ code: Code, reason: String, underlying: (any Error)? = nil) {
        var info: [String: any Sendable] = [NSLocalizedDescriptionKey: reason.asMessage]
        info[NSUnderlyingErrorKey] = underlying
        self.init(code, userInfo: info)
    }
}
