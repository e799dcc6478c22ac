import Foundation
import TrunklineCore

/// The body of a response over the link. Tells the gateway how many more bytes it may send.
final class LinkBody: Sendable {
    private struct State {
        var first: Data?
        var end: Result<Void, URLError>?
        var count = 0
        /// Readers that wait for a frame, or have one that is not counted yet.
        var readers = 1
        /// The last frame has arrived. When no reader is left either, it is known whether the body is complete.
        var hasLast = false
        var owed = 0
        /// Readers that found no further frame while others still count theirs.
        var waiters: [Continuation<Void>] = []
    }

    private let state: Lock<State>
    private let frames: ReplyStream<Response>
    private let length: Int?
    private let window: Int
    /// `nil` if the stream has its own timeout.
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

    /// Checks that the content agrees with `Content-Length`. Readers may call this in any order.
    private func count(_ data: Data, isLast: Bool) throws(URLError) {
        let (count, isWhole) = state.withLock { state in
            state.count += data.count
            state.readers -= 1
            state.hasLast = state.hasLast || isLast
            return (state.count, state.hasLast && state.readers == 0)
        }
        if let length, count > length {
            let error = URLError(.badServerResponse, reason: "the response has more content than its Content-Length")
            give(up: error)
            throw error
        }
        if let length, isWhole, count < length {
            let error = URLError(.networkConnectionLost, reason: "the response ended after \(count) of \(length) bytes")
            give(up: error)
            throw error
        }
        if isWhole { finish(.success(())) }
    }

    private func give(up error: URLError) {
        state.withLock { state in
            // Content that has arrived and was not read is discarded too.
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

    /// Returns soon: the stream is at its end, so no reader waits for a frame.
    private func untilEnd() async {
        await withContinuation { (waiter: Continuation<Void>) in
            let isKnown = state.withLock { state in
                if state.end == nil { state.waiters.append(waiter) }
                return state.end != nil
            }
            if isKnown { waiter.resume() }
        }
    }

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
            // If the request has ended, the next frame reports it. If only this task was cancelled, another reader may
            // continue, and the next update contains these bytes.
            if error.fate == .notSent { state.withLock { $0.owed += due } }
        }
    }
}
