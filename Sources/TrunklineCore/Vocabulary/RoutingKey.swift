/// The key of a request: requests with the same key go to the same server of a cluster while it exists, is ready, and
/// has no more than 1.25 times its share of the requests in flight.
///
/// The server depends only on the key and on the servers, so every process with the same list chooses the same one. If
/// a server comes or goes, only the keys move that it takes or leaves behind (consistent hashing with bounded loads,
/// Mirrokni et al. 2016).
public struct RoutingKey: Sendable, Hashable {
    package let hash: UInt64

    /// Creates a key from the description of a value: a string, a number or a UUID, for example. ``Bytes``, whose
    /// description has only their number, are the key themselves.
    public init(_ value: some CustomStringConvertible) {
        // Known only here: the calls of a cluster take any value with a description.
        hash =
            if let bytes = value as? Bytes { StableHasher.hash(bytes) } else {
                StableHasher.hash(value.description.utf8)
            }
    }

    /// Creates a key from bytes.
    public init(bytes: some Sequence<UInt8>) { hash = StableHasher.hash(bytes) }
}

extension RoutingKey: CustomReflectable {
    /// Empty: a key may be personal data.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
