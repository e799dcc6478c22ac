import Foundation
import Trunkline

/// The body of a response that comes over the link: hands out what came, and tells the gateway how much more it will take.
final class LinkBody: Sendable {
    private struct State {
        /// What came with the head.
        var first: Data?
        /// How it ended; `nil` while more comes.
        var end: Result<Void, URLError>?
        var count = 0
        /// Those who wait for a frame, or have one that is not counted yet.
        var readers = 1
        /// The last frame has come. With the last reader it is known whether the body is whole.
        var hasLast = false
        /// What has been taken and the gateway has not been told of.
        var owed = 0
        /// Readers that came too late for the last frame, while others still count.
        var waiters: [Continuation<Void>] = []
    }

    private let state: Lock<State>
    private let frames: ReplyStream<Response>
    private let length: Int?
    private let window: Int
    /// The longest wait for a piece, where the stream has none of its own.
    private let timeout: Duration?

    init(_ frames: ReplyStream<Response>, first: Data, isOver: Bool, length: Int?, window: Int, timeout: Duration?)
        throws(URLError)
    {
        (self.frames, self.length, self.window, self.timeout) = (frames, length, window, timeout)
        state = Lock(State(first: first.isEmpty ? nil : first))
        try count(first, isLast: isOver)
    }

    func cancel() { give(up: URLError(.cancelled)) }

    func next() async throws(URLError) -> Data? {
        let (first, end) = state.withLock { state in
            defer { state.first = nil }
            return (state.first, state.end)
        }
        if let first {
            if end == nil { await acknowledge(first.count) }
            return first
        }
        while begin() {
            guard let frame = try await frame() else {
                try count(Data(), isLast: false)
                await untilEnd()
                break
            }
            guard frame.type != TunnelWire.abortType else {
                let error = URLError(TunnelWire.abortCode(in: frame))
                finish(.failure(error))
                throw error
            }
            let data = Data(frame.body)
            try count(data, isLast: !frame.isPart)
            if frame.isPart { await acknowledge(data.count) }
            if !data.isEmpty { return data }
        }
        try state.withLock { $0.end }?.get()
        return nil
    }

    /// Joins the readers, unless the body is at its end.
    private func begin() -> Bool {
        state.withLock { state in
            guard state.end == nil else { return false }
            state.readers += 1
            return true
        }
    }

    private func frame() async throws(URLError) -> Response? {
        do {
            var iterator = frames.makeAsyncIterator()
            guard let timeout else { return try await iterator.next() }
            return try await withTimeout(timeout) { [frames] in
                var iterator = frames.makeAsyncIterator()
                return try await iterator.next()
            }
        } catch {
            let error = URLError(linkFailure: error)
            finish(.failure(error))
            throw error
        }
    }

    /// Counts what a reader has got, and checks that the frames and `Content-Length` speak of one body. Readers may get here in
    /// another order than that of their frames.
    private func count(_ data: Data, isLast: Bool) throws(URLError) {
        let (count, isWhole) = state.withLock { state in
            state.count += data.count
            state.readers -= 1
            state.hasLast = state.hasLast || isLast
            return (state.count, state.hasLast && state.readers == 0)
        }
        if let length, count > length {
            let error = URLError(.badServerResponse, reason: "more content than the response's Content-Length")
            give(up: error)
            throw error
        }
        if let length, isWhole, count < length {
            let error = URLError(.networkConnectionLost, reason: "\(count) of \(length) bytes came")
            give(up: error)
            throw error
        }
        if isWhole { finish(.success(())) }
    }

    // MARK: The end

    private func give(up error: URLError) {
        state.withLock { state in
            // What came whole and is not taken is dropped like all else.
            if state.first != nil { (state.first, state.end) = (nil, .failure(error)) }
        }
        finish(.failure(error))
        frames.cancel()
    }

    private func finish(_ end: Result<Void, URLError>) {
        let waiters = state.withLock { state in
            state.end = state.end ?? end
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Returns when it is known how the body ends. The stream is at its end, so nobody has to wait for a frame: this is soon.
    private func untilEnd() async {
        await withContinuation { (waiter: Continuation<Void>) in
            let isKnown = state.withLock { state in
                if state.end == nil { state.waiters.append(waiter) }
                return state.end != nil
            }
            if isKnown { waiter.resume() }
        }
    }

    // MARK: The window

    /// Tells the gateway of half a window at a time.
    private func acknowledge(_ count: Int) async {
        let window = window
        let due = state.withLock { state in
            state.owed += TunnelWire.cost(of: count)
            guard state.owed >= window / 2 else { return 0 }
            defer { state.owed = 0 }
            return state.owed
        }
        guard due > 0 else { return }
        do throws(ClientError) { try await frames.post(TunnelWire.window(due)) } catch {
            // If the request is over, the next frame says so. If only this task is, another may read on: told with the next.
            if error.fate == .notSent { state.withLock { $0.owed += due } }
        }
    }
}
