import TrunklineCore

/// The endpoints at which what a line counts happened.
struct LogPlaces: Sendable {
    private var endpoints: [Endpoint] = []
    private var hasMore = false

    /// The number of endpoints that a line names.
    private static let maximumCount = 3

    init(_ endpoint: Endpoint? = nil) { note(endpoint) }

    mutating func note(_ endpoint: Endpoint?) {
        guard let endpoint, !endpoints.contains(endpoint) else { return }
        if endpoints.count < Self.maximumCount { endpoints.append(endpoint) } else { hasMore = true }
    }

    /// The endpoints in the order in which they were noted; `nil` if there is none.
    var text: String? {
        endpoints.isEmpty ? nil : endpoints.map(\.description).joined(separator: ", ") + (hasMore ? ", …" : "")
    }
}
