// Finding the servers of a cluster in Consul: a sequence of complete lists, from its blocking queries.

import Foundation
import Synchronization
import Trunkline
import TrunklineHTTP
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

// MARK: - Copy this

/// The healthy instances of a service in Consul.
///
/// The sequence never ends. It throws the first error: a cluster then keeps its servers, and iterates again after a while.
struct ConsulInstances: AsyncSequence, Sendable {
    /// The HTTP API of the agent. Usually `http://127.0.0.1:8500`.
    let agent: URL
    let service: String
    /// The ACL token, if the agent requires one.
    var token: String?

    /// How long the agent may hold a query if nothing changes.
    static let wait = 30

    struct AsyncIterator: AsyncIteratorProtocol {
        let instances: ConsulInstances
        /// The state of the catalogue that was seen last; 0 for none.
        private var index: UInt64 = 0

        init(_ instances: ConsulInstances) { self.instances = instances }

        /// Waits until the instances have changed since the last list.
        mutating func next() async throws -> [ClusterEndpoint]? {
            while true {
                let (data, response) = try await URLSession.shared.data(for: instances.query(after: index))
                guard let response = response as? HTTPURLResponse, response.statusCode == 200,
                    let latest = response.value(forHTTPHeaderField: "X-Consul-Index").flatMap({ UInt64($0) }),
                    latest > 0
                else { throw URLError(.badServerResponse) }
                // The same index: nothing has changed during the wait.
                if latest == index { continue }
                // A lower index: the servers of Consul were restored or replaced. The numbers begin again.
                index = latest < index ? 0 : latest
                return try JSONDecoder().decode([Instance].self, from: data).map(\.endpoint)
            }
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }

    private func query(after index: UInt64) -> URLRequest {
        var url = agent.appendingPathComponent("v1/health/service").appendingPathComponent(service)
        url.append(queryItems: [
            URLQueryItem(name: "passing", value: nil),
            URLQueryItem(name: "index", value: "\(index)"),
            URLQueryItem(name: "wait", value: "\(Self.wait)s"),
        ])
        var request = URLRequest(url: url)
        // Consul adds up to a sixteenth to the wait.
        request.timeoutInterval = Double(Self.wait) * 17 / 16 + 5
        if let token { request.setValue(token, forHTTPHeaderField: "X-Consul-Token") }
        return request
    }

    /// One element of the response, as far as it is used.
    private struct Instance: Decodable {
        var node: Node
        var service: Service

        enum CodingKeys: String, CodingKey { case node = "Node", service = "Service" }

        struct Node: Decodable {
            var address: String
            var locality: Locality?

            enum CodingKeys: String, CodingKey { case address = "Address", locality = "Locality" }
        }

        struct Service: Decodable {
            var id: String
            /// Empty if it is that of the node.
            var address: String
            var port: UInt16
            var weights: Weights?
            var meta: [String: String]?
            var locality: Locality?

            enum CodingKeys: String, CodingKey {
                case id = "ID", address = "Address", port = "Port", weights = "Weights", meta = "Meta"
                case locality = "Locality"
            }
        }

        struct Weights: Decodable {
            var passing: Double

            enum CodingKeys: String, CodingKey { case passing = "Passing" }
        }

        struct Locality: Decodable {
            var zone: String?

            enum CodingKeys: String, CodingKey { case zone = "Zone" }
        }

        var endpoint: ClusterEndpoint {
            ClusterEndpoint(
                .host(service.address.isEmpty ? node.address : service.address, port: service.port),
                weight: service.weights?.passing,
                zone: service.locality?.zone ?? node.locality?.zone,
                metadata: (service.meta ?? [:]).merging(["id": service.id]) { _, id in id }
            )
        }
    }
}

// MARK: - Two servers, and an agent of Consul for this example

let first = try await LoopbackServer.start(speaking: .standard) { _ in .reply("first") }
let second = try await LoopbackServer.start(speaking: .standard) { _ in .reply("second") }

/// An instance in the response of Consul.
func instance(_ id: String, _ server: LoopbackServer) -> String {
    """
    {"Node": {"Address": "127.0.0.1"}, "Service": {"ID": "\(id)", "Address": "", "Port": \(server.endpoint.port ?? 0),
    "Weights": {"Passing": 2, "Warning": 1}, "Meta": {"version": "5"}, "Locality": {"Zone": "eu-1"}}}
    """
}

/// What the agent answers to one query after the other. It holds the last one.
let answers = [
    (index: 40, instances: [instance("first", first)]),
    (index: 57, instances: [instance("first", first), instance("second", second)]),
    (index: 12, instances: [instance("first", first), instance("second", second)]),
    (index: 13, instances: [instance("second", second)]),
]
let queries = Mutex([String]())
let agent = try await LoopbackServer.start(speaking: HTTP1Codec()) { frame in
    guard let request = try? HTTP1Request(frame) else { return .close }
    let number = queries.withLock { queries in
        queries.append(request.target)
        return queries.count - 1
    }
    guard number < answers.count else { return .noReply }
    let (headers, body) = ("\(answers[number].index)", "[\(answers[number].instances.joined(separator: ","))]")
    let response = HTTP1Response(200, headers: ["X-Consul-Index": headers], body: Bytes(body))
    guard let reply = try? response.frame() else { return .close }
    return .after(number == 0 ? .zero : .milliseconds(200), .reply(reply))
}

// MARK: - A cluster of the instances

guard let url = URL(string: "http://\(agent.endpoint)") else { fatalError("invalid URL") }
let lists = ConsulInstances(agent: url, service: "orders").map { list in
    print("found:", list.map { "\($0.metadata["id"] ?? "?") in \($0.zone ?? "?")" }.joined(separator: ", "))
    return list
}
try await withCluster(discovering: Discovery(lists), speaking: .standard) { cluster in
    print("answered by the", String(try await cluster.send(Request(type: 0x410)).body))
    // Until only the second server is left.
    while queries.withLock({ $0.count }) <= answers.count { try await Task.sleep(for: .milliseconds(10)) }
    print("answered by the", String(try await cluster.send(Request(type: 0x410)).body))
}
for query in queries.withLock({ $0 }) { print("query:", query) }

await agent.stop()
await first.stop()
await second.stop()
print("ConsulDiscovery: done")
