import Foundation
import Trunkline
import TrunklineCore
import TrunklineIO

/// The body of a response that comes over the link: hands out what came, and tells the gateway how much more it will take.
final class LinkBody: Sendable {
    private struct State {
        /// What came with the head.
        var first: Data?
        var isOver: Bool
        var count = 0
        /// What has been taken and the gateway has not been told of.
        var owed = 0
    }

    private let state: Lock<State>
    private let frames: ReplyStream
    private let length: Int?
    private let window: Int
    /// The longest wait for a piece, where the stream has none of its own.
    private let timeout: Duration?

    init(_ frames: ReplyStream, first: Data, isOver: Bool, length: Int?, window: Int, timeout: Duration?)
        throws(URLError)
    {
        (self.frames, self.length, self.window, self.timeout) = (frames, length, window, timeout)
        state = Lock(State(first: first.isEmpty ? nil : first, isOver: isOver))
        try count(first, isLast: isOver)
    }

    func cancel() {
        state.withLock { ($0.first, $0.isOver) = (nil, true) }
        frames.cancel()
    }

    func next() async throws(URLError) -> Data? {
        let (first, isOver) = state.withLock { state in
            defer { state.first = nil }
            return (state.first, state.isOver)
        }
        if let first {
            await acknowledge(first.count, isLast: isOver)
            return first
        }
        var isLast = isOver
        while !isLast {
            guard let frame = try await frame() else { throw URLError(.networkConnectionLost) }
            guard frame.type != TunnelWire.abortType else {
                state.withLock { $0.isOver = true }
                throw URLError(TunnelWire.abortCode(in: frame))
            }
            isLast = frame.kind != .part
            let data = Data(frame.body)
            try count(data, isLast: isLast)
            await acknowledge(data.count, isLast: isLast)
            if !data.isEmpty { return data }
        }
        return nil
    }

    private func frame() async throws(URLError) -> Frame? {
        do {
            var iterator = frames.makeAsyncIterator()
            guard let timeout else { return try await iterator.next() }
            return try await withTimeout(timeout) { [frames] in
                var iterator = frames.makeAsyncIterator()
                return try await iterator.next()
            }
        } catch {
            state.withLock { $0.isOver = true }
            throw URLError(sourceFailure: error)
        }
    }

    /// Checks that the frames and `Content-Length` speak of one body.
    private func count(_ data: Data, isLast: Bool) throws(URLError) {
        let count = state.withLock { state in
            state.count += data.count
            if isLast { state.isOver = true }
            return state.count
        }
        guard let length else { return }
        if count > length {
            cancel()
            throw URLError(.badServerResponse, reason: "more content than the response's Content-Length")
        }
        if isLast, count < length {
            cancel()
            throw URLError(.networkConnectionLost, reason: "\(count) of \(length) bytes came")
        }
    }

    /// Tells the gateway of half a window at a time.
    private func acknowledge(_ count: Int, isLast: Bool) async {
        let window = window
        let due = state.withLock { state in
            state.owed += TunnelWire.cost(of: count)
            guard !isLast, state.owed >= window / 2 else { return 0 }
            defer { state.owed = 0 }
            return state.owed
        }
        // Whatever becomes of it: if the exchange is over, the next frame says so.
        if due > 0 { try? await frames.post(TunnelWire.window(due)) }
    }
}
