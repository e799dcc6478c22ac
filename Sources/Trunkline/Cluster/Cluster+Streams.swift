/// Following a cluster.
extension Cluster {
    /// The servers that the cluster uses now, and every following list, until the cluster is closed.
    ///
    /// Each access creates a separate stream. A reader that is more than 64 lists behind misses the oldest ones.
    public nonisolated var endpoints: AsyncStream<[ClusterEndpoint]> {
        stream {
            $0.streams.endpoints.add($1, id: $2)
        } first: {
            $0.servers.all.map(\.found)
        }
    }

    /// What happens to the servers of the cluster from now on, until it is closed.
    ///
    /// Each access creates a separate stream. A reader that is more than 64 changes behind misses the oldest ones.
    public nonisolated var changes: AsyncStream<ClusterChange> {
        stream {
            $0.streams.changes.add($1, id: $2)
        } first: { _ in
            nil
        }
    }

    private nonisolated func stream<Element: Sendable>(
        _ add: @escaping @Sendable (isolated Cluster, AsyncStream<Element>.Continuation, UInt64) -> Void,
        first: @escaping @Sendable (isolated Cluster) -> Element?
    ) -> AsyncStream<Element> {
        let (stream, continuation) = AsyncStream.makeStream(of: Element.self, bufferingPolicy: .bufferingNewest(64))
        loop.schedule(
            LoopClosure { [weak self] in
                guard let self else { return continuation.finish() }
                onItsLoop { cluster in
                    if let first = first(cluster), case .terminated = continuation.yield(first) { return }
                    guard cluster.lifecycle < .closed else { return continuation.finish() }
                    // A reader that has ended is removed by the next element.
                    add(cluster, continuation, cluster.servers.nextNumber())
                }
            }
        )
        return stream
    }

    /// Tells a change to everyone who follows the cluster.
    func tell(_ change: ClusterChange) {
        streams.changes.yield(change)
        voice.tell(change)
    }

    func endStreams() {
        streams.changes.finish()
        streams.endpoints.finish()
    }
}

/// The streams of those who follow a cluster.
struct ClusterStreams {
    var endpoints = Broadcast<[ClusterEndpoint]>()
    var changes = Broadcast<ClusterChange>()
}
