/// Readers are added at once, on any thread, so that they miss nothing that happens after they ask for their stream.
struct ReportReaders: Sendable {
    private struct State {
        var streams: [UInt64: AsyncStream<DisconnectReport>.Continuation] = [:]
        var latest: UInt64 = 0
        var isFinished = false
    }

    private let state = Lock(State())

    func makeStream() -> AsyncStream<DisconnectReport> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: DisconnectReport.self,
            bufferingPolicy: .bufferingNewest(64)
        )
        let id: UInt64? = state.withLock {
            guard !$0.isFinished else { return nil }
            $0.latest += 1
            $0.streams[$0.latest] = continuation
            return $0.latest
        }
        if let id {
            continuation.onTermination = { [weak state] _ in _ = state?.withLock { $0.streams.removeValue(forKey: id) }
            }
        } else {
            continuation.finish()
        }
        return stream
    }

    /// Oldest reader first: a simulation has to be reproducible.
    func yield(_ report: DisconnectReport) {
        for stream in state.withLock({ Self.sorted($0.streams) }) { stream.yield(report) }
    }

    func finish() {
        let streams = state.withLock { state in
            state.isFinished = true
            return Self.sorted(exchange(&state.streams, with: [:]))
        }
        for stream in streams { stream.finish() }
    }

    private static func sorted(
        _ streams: [UInt64: AsyncStream<DisconnectReport>.Continuation]
    ) -> [AsyncStream<DisconnectReport>.Continuation] {
        streams.isEmpty ? [] : streams.sorted { $0.key < $1.key }.map(\.value)
    }
}
