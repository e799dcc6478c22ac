/// The streams of the readers of one sequence of events. Confined to its actor.
package struct Broadcast<Element: Sendable> {
    private(set) var streams: [UInt64: AsyncStream<Element>.Continuation] = [:]

    package init() {}

    package mutating func add(_ stream: AsyncStream<Element>.Continuation, id: UInt64) { streams[id] = stream }

    package mutating func remove(_ id: UInt64) { streams[id] = nil }

    /// Oldest first: the order of a dictionary differs from process to process, and a simulation has to be
    /// reproducible.
    package mutating func yield(_ element: Element) {
        for (id, stream) in streams.sorted(by: { $0.key < $1.key }) {
            // Handles a reader that ended before it was added, whose termination nothing reports.
            if case .terminated = stream.yield(element) { streams[id] = nil }
        }
    }

    package mutating func finish() {
        for (_, stream) in streams.sorted(by: { $0.key < $1.key }) { stream.finish() }
        streams = [:]
    }
}

extension Connection {
    nonisolated func stream<Element: Sendable>(
        startingWith first: @escaping @Sendable (isolated Connection) -> Element,
        _ access: @escaping @Sendable (isolated Connection, (inout Broadcast<Element>) -> Void) -> Void
    ) -> AsyncStream<Element> {
        let (stream, continuation) = AsyncStream.makeStream(of: Element.self, bufferingPolicy: .bufferingNewest(64))
        loop.schedule(
            LoopClosure { [weak self] in
                guard let self else { return continuation.finish() }
                self.onLoop { $0.add(continuation, startingWith: first($0), access) }
            }
        )
        return stream
    }

    private func add<Element: Sendable>(
        _ stream: AsyncStream<Element>.Continuation,
        startingWith first: Element,
        _ access: @escaping @Sendable (isolated Connection, (inout Broadcast<Element>) -> Void) -> Void
    ) {
        // The reader may have ended already; then no termination handler would run.
        if case .terminated = stream.yield(first) { return }
        guard lifecycle < .closed else { return stream.finish() }
        let id = memory.nextNumber()
        access(self) { $0.add(stream, id: id) }
        stream.onTermination = { [weak self] _ in
            self?.schedule { connection in access(connection) { $0.remove(id) } }
        }
    }
}
