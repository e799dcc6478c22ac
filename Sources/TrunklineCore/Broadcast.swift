/// The streams of the readers of one sequence of events. Confined to an event loop.
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
