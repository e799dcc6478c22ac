package import Foundation
import TrunklineCore

/// Collects a body, so that its length is known: in memory up to `memory` bytes, otherwise in a file.
package final class BodyCollector: Sendable {
    private struct State {
        var data = Data()
        var file: TemporaryFile?
        var count = 0
    }
    private let state = Lock(State())
    private let memory: Int
    private let limit: Int

    package init(memory: Int = 1024 * 1024, limit: Int) { (self.memory, self.limit) = (memory, limit) }

    package var count: Int { state.withLock { $0.count } }

    /// - Throws: `dataLengthExceedsMaximum` beyond `limit` bytes; `cannotWriteToFile` if the disk fails.
    package func append(_ piece: Data) async throws(URLError) {
        let (memory, limit) = (memory, limit)
        let (isTooMuch, isHeld) = state.withLock { state in
            guard state.count + piece.count <= limit else { return (true, false) }
            state.count += piece.count
            guard state.file == nil, state.data.count + piece.count <= memory else { return (false, false) }
            state.data += piece
            return (false, true)
        }
        if isTooMuch {
            throw URLError(.dataLengthExceedsMaximum, reason: "the request's body exceeds the limit of \(limit) bytes")
        }
        if isHeld { return }
        let error = await Disk.run { [state] () -> (any Error)? in
            do {
                let (known, data, end) = state.withLock { ($0.file, $0.data, $0.count) }
                let file = try known ?? Disk.makeFile(isNamed: true)
                if known == nil { try file.write(data, at: 0) }
                try file.write(piece, at: end - piece.count)
                state.withLock { ($0.file, $0.data) = (file, Data()) }
                return nil
            } catch {
                return error
            }
        }
        if let error { throw URLError(.cannotWriteToFile, userInfo: [NSUnderlyingErrorKey: error]) }
    }

    package var body: OriginBody {
        state.withLock { state in
            if let file = state.file { return .file(file) }
            return state.count == 0 ? .none : .data(state.data)
        }
    }
}
