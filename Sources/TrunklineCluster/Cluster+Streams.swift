public import TrunklineCore

extension Cluster {
    /// The servers that the cluster uses now, and every following list, until the cluster is closed.
    ///
    /// Each access creates a separate stream. A reader that is more than 64 lists behind misses the oldest ones.
    public nonisolated var endpoints: AsyncStream<[ClusterEndpoint]> {
        stream {
            $0.servers.current
        } _: { cluster, change in
            change(&cluster.streams.endpoints)
        }
    }

    /// What happens to the servers of the cluster from now on, until it is closed.
    ///
    /// Each access creates a separate stream. A reader that is more than 64 changes behind misses the oldest ones.
    public nonisolated var changes: AsyncStream<ClusterChange> {
        stream { _ in
            nil
        } _: { cluster, change in
            change(&cluster.streams.changes)
        }
    }

    private nonisolated func stream<Element: Sendable>(
        startingWith first: @escaping @Sendable (isolated Cluster) -> Element?,
        _ access: @escaping @Sendable (isolated Cluster, (inout Broadcast<Element>) -> Void) -> Void
    ) -> AsyncStream<Element> {
        let (stream, continuation) = AsyncStream.makeStream(of: Element.self, bufferingPolicy: .bufferingNewest(64))
        loop.schedule(
            LoopClosure { [weak self] in
                guard let self else { return continuation.finish() }
                onItsLoop { cluster in
                    if let first = first(cluster), case .terminated = continuation.yield(first) { return }
                    guard cluster.lifecycle < .closed else { return continuation.finish() }
                    let id = cluster.servers.nextNumber()
                    access(cluster) { $0.add(continuation, id: id) }
                    continuation.onTermination = { [weak cluster] _ in
                        guard let cluster else { return }
                        cluster.loop.schedule(
                            LoopClosure { cluster.onItsLoop { cluster in access(cluster) { $0.remove(id) } } }
                        )
                    }
                }
            }
        )
        return stream
    }

    func tell(_ change: ClusterChange) {
        streams.changes.yield(change)
        voice.tell(change)
    }

    func endStreams() {
        streams.changes.finish()
        streams.endpoints.finish()
    }
}

struct ClusterStreams {
    var endpoints = Broadcast<[ClusterEndpoint]>()
    var changes = Broadcast<ClusterChange>()
}
