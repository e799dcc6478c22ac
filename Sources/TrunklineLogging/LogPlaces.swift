import TrunklineCore

/// The endpoints that a line names, at most `maximumCount`.
struct LogPlaces: Sendable {
    private var endpoints: [Endpoint] = []
    private var hasMore = false

    private static let maximumCount = 3

    init(_ endpoint: Endpoint? = nil) { note(endpoint) }

    mutating func note(_ endpoint: Endpoint?) {
        guard let endpoint, !endpoints.contains(endpoint) else { return }
        if endpoints.count < Self.maximumCount { endpoints.append(endpoint) } else { hasMore = true }
    }

    var text: String? {
        endpoints.isEmpty ? nil : endpoints.map(\.description).joined(separator: ", ") + (hasMore ? ", …" : "")
    }
}
