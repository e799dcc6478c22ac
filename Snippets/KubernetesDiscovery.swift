// Finding the servers of a cluster in Kubernetes: a sequence of complete lists, from the EndpointSlices of a service.

import Foundation
import Synchronization
import Trunkline
import TrunklineHTTP
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

// MARK: - Copy this

/// The ready pods of a service in Kubernetes.
///
/// The sequence never ends. It throws the first error: a cluster then keeps its servers, and iterates again after a while.
///
/// The account of the pod needs the permission to `list` and `watch` the `endpointslices` of the group
/// `discovery.k8s.io`. On Linux, URLSession trusts only the certificate authorities of the system. Add that of the
/// Kubernetes cluster, the file `ca.crt` beside the token, to those of the image, or let `api` be `kubectl proxy` in the
/// same pod.
struct KubernetesPods: AsyncSequence, Sendable {
    /// The API server. In a pod, `https://kubernetes.default.svc`.
    var api: URL
    var namespace: String
    var service: String
    /// The name of the port; `nil` for the first one.
    var port: String?
    /// The file with the bearer token. It is read for each request, because Kubernetes replaces the token every hour.
    var tokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"

    struct AsyncIterator: AsyncIteratorProtocol {
        let pods: KubernetesPods
        /// The slices by name. Together they are the service.
        private var slices: [String: EndpointSlice] = [:]
        /// The state of the API that was seen last; `nil` before the first list.
        private var version: String?
        private var events: AsyncThrowingStream<Data, any Error>.AsyncIterator?

        init(_ pods: KubernetesPods) { self.pods = pods }

        /// Waits until a slice has changed.
        mutating func next() async throws -> [ClusterEndpoint]? {
            guard let version else { return try await list() }
            do {
                if events == nil { events = try lines(of: pods.request(watchingFrom: version)).makeAsyncIterator() }
                while let line = try await events?.next() {
                    if try take(JSONDecoder().decode(Event.self, from: line)) { return endpoints }
                }
            } catch is Gone {
                self.version = nil
            }
            // The API ends every watch after some minutes. The next one continues where it ended, or begins with a list
            // if the version is too old. The pause protects the API from watches that end at once.
            events = nil
            try await Task.sleep(for: .seconds(1))
            return self.version == nil ? try await list() : endpoints
        }

        /// Begins with a complete list.
        private mutating func list() async throws -> [ClusterEndpoint] {
            let (data, response) = try await URLSession.shared.data(for: pods.request())
            guard (response as? HTTPURLResponse)?.statusCode == 200 else { throw URLError(.badServerResponse) }
            let list = try JSONDecoder().decode(EndpointSliceList.self, from: data)
            slices = Dictionary(list.items.map { ($0.metadata.name, $0) }) { _, last in last }
            version = list.metadata.resourceVersion
            return endpoints
        }

        /// Returns whether the slices have changed.
        private mutating func take(_ event: Event) throws -> Bool {
            switch event {
            case .changed(let slice): slices[slice.metadata.name] = slice
            case .deleted(let slice): slices[slice.metadata.name] = nil
            case .bookmark: break
            case .gone: throw Gone()
            case .failed(let message):
                throw URLError(.badServerResponse, userInfo: [NSLocalizedDescriptionKey: message])
            }
            if let latest = event.version { version = latest }
            if case .bookmark = event { return false }
            return true
        }

        private var endpoints: [ClusterEndpoint] {
            slices.values.sorted { $0.metadata.name < $1.metadata.name }.flatMap { $0.servers(at: pods.port) }
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }

    /// A request for the complete list, or for the changes since a version.
    private func request(watchingFrom version: String? = nil) throws -> URLRequest {
        var url = api.appendingPathComponent("apis/discovery.k8s.io/v1/namespaces/\(namespace)/endpointslices")
        url.append(queryItems: [URLQueryItem(name: "labelSelector", value: "kubernetes.io/service-name=\(service)")])
        if let version {
            url.append(queryItems: [
                URLQueryItem(name: "watch", value: "1"),
                URLQueryItem(name: "resourceVersion", value: version),
                // Events without a change keep the version from becoming too old.
                URLQueryItem(name: "allowWatchBookmarks", value: "true"),
                URLQueryItem(name: "timeoutSeconds", value: "300"),
            ])
        }
        var request = URLRequest(url: url)
        request.timeoutInterval = version == nil ? 30 : 330
        let token = try String(contentsOfFile: tokenFile, encoding: .utf8).trimmingCharacters(
            in: .whitespacesAndNewlines
        )
        request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        return request
    }

    /// The version is too old: the watch must begin with a new list.
    private struct Gone: Error {}

    private struct Metadata: Decodable {
        var name: String
        var resourceVersion: String?
    }

    private struct EndpointSliceList: Decodable {
        struct Metadata: Decodable { var resourceVersion: String }
        var metadata: Metadata
        var items: [EndpointSlice]
    }

    private struct EndpointSlice: Decodable {
        struct Endpoint: Decodable {
            struct Conditions: Decodable { var ready: Bool? }
            var addresses: [String]
            var conditions: Conditions?
            var zone: String?
            var nodeName: String?
        }
        struct Port: Decodable {
            var name: String?
            var port: UInt16?
        }
        var metadata: Metadata
        var endpoints: [Endpoint]?
        var ports: [Port]?

        func servers(at name: String?) -> [ClusterEndpoint] {
            guard let port = ports?.first(where: { name == nil || $0.name == name })?.port else { return [] }
            // Without the condition, the state is unknown, and a client should assume that the pod is ready.
            return (endpoints ?? []).filter { $0.conditions?.ready ?? true }.compactMap { endpoint in
                guard let address = endpoint.addresses.first else { return nil }
                return ClusterEndpoint(.host(address, port: port), zone: endpoint.zone)
            }
        }
    }

    /// A line of the watch.
    private enum Event: Decodable {
        case changed(EndpointSlice), deleted(EndpointSlice), bookmark(version: String?), gone, failed(String)

        private enum Key: CodingKey { case type, object }
        private struct Status: Decodable {
            var code: Int?
            var message: String?
        }
        private struct Bookmark: Decodable {
            struct Metadata: Decodable { var resourceVersion: String? }
            var metadata: Metadata
        }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: Key.self)
            switch try container.decode(String.self, forKey: .type) {
            case "ADDED", "MODIFIED": self = .changed(try container.decode(EndpointSlice.self, forKey: .object))
            case "DELETED": self = .deleted(try container.decode(EndpointSlice.self, forKey: .object))
            case "BOOKMARK":
                let bookmark = try container.decode(Bookmark.self, forKey: .object)
                self = .bookmark(version: bookmark.metadata.resourceVersion)
            case let type:
                let status = try container.decode(Status.self, forKey: .object)
                self = status.code == 410 ? .gone : .failed("\(type): \(status.message ?? "no message")")
            }
        }

        var version: String? {
            switch self {
            case .changed(let slice), .deleted(let slice): slice.metadata.resourceVersion
            case .bookmark(let version): version
            case .gone, .failed: nil
            }
        }
    }

    // MARK: Lines

    /// The lines of a response while it arrives. The request ends with the iteration.
    private static func lines(of request: URLRequest) -> AsyncThrowingStream<Data, any Error> {
        AsyncThrowingStream { continuation in
            let session = URLSession(configuration: .ephemeral, delegate: Lines(continuation), delegateQueue: nil)
            continuation.onTermination = { _ in session.invalidateAndCancel() }
            session.dataTask(with: request).resume()
        }
    }

    /// Receives a response in pieces: Foundation for Linux has no `URLSession.bytes(for:)`.
    private final class Lines: NSObject, URLSessionDataDelegate, Sendable {
        private let lines: AsyncThrowingStream<Data, any Error>.Continuation
        /// The beginning of a line whose end has not arrived.
        private let rest = Mutex(Data())

        init(_ lines: AsyncThrowingStream<Data, any Error>.Continuation) { self.lines = lines }

        func urlSession(
            _ session: URLSession,
            dataTask: URLSessionDataTask,
            didReceive response: URLResponse,
            completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
        ) {
            let status = (response as? HTTPURLResponse)?.statusCode
            guard status != 200 else { return completionHandler(.allow) }
            lines.finish(throwing: status == 410 ? Gone() : URLError(.badServerResponse))
            completionHandler(.cancel)
        }

        func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
            rest.withLock { rest in
                rest.append(data)
                while let end = rest.firstIndex(of: 0x0A) {
                    if end > rest.startIndex { lines.yield(Data(rest[..<end])) }
                    rest = Data(rest[(end + 1)...])
                }
            }
        }

        func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
            lines.finish(throwing: error)
        }
    }
}

// MARK: - Two servers, and an API of Kubernetes for this example

let first = try await LoopbackServer.start(speaking: .standard) { _ in .reply("first") }
let second = try await LoopbackServer.start(speaking: .standard) { _ in .reply("second") }
func name(_ server: ClusterEndpoint) -> String { server.endpoint == first.endpoint ? "first" : "second" }

/// A slice with one pod.
func slice(_ name: String, version: Int, _ server: LoopbackServer, isReady: Bool = true) -> String {
    """
    {"metadata": {"name": "\(name)", "resourceVersion": "\(version)"}, "addressType": "IPv4", "endpoints": [{\
    "addresses": ["127.0.0.1"], "conditions": {"ready": \(isReady)}, "zone": "\(name)"}], \
    "ports": [{"name": "acme", "port": \(server.endpoint.port ?? 0)}]}
    """
}
func list(version: Int, _ slices: [String]) -> Bytes {
    Bytes("{\"metadata\": {\"resourceVersion\": \"\(version)\"}, \"items\": [\(slices.joined(separator: ","))]}")
}
func event(_ type: String, _ object: String) -> Bytes { Bytes("{\"type\": \"\(type)\", \"object\": \(object)}\n") }

let requests = Mutex([String]())
let api = try await LoopbackServer.start(speaking: HTTP1Codec()) { frame in
    guard let request = try? HTTP1Request(frame) else { return .close }
    guard request.headers["Authorization"] == "Bearer secret" else { return .status(401, "") }
    let lists = requests.withLock { requests in
        requests.append(request.target)
        return requests.count { !$0.contains("watch=1") }
    }
    let isWatch = request.target.contains("watch=1")
    switch (isWatch, request.target.contains("resourceVersion=100")) {
    case (false, _) where lists == 1: return .reply(list(version: 100, [slice("eu-1", version: 90, first)]))
    case (false, _):
        let slices = [slice("eu-1", version: 190, first), slice("eu-2", version: 191, second)]
        return .reply(list(version: 200, slices))
    case (true, true):
        let events = [
            event("ADDED", slice("eu-2", version: 101, second)),
            event("MODIFIED", slice("eu-1", version: 102, first, isReady: false)),
            event("BOOKMARK", "{\"kind\": \"EndpointSlice\", \"metadata\": {\"resourceVersion\": \"150\"}}"),
        ]
        let end = event("ERROR", "{\"kind\": \"Status\", \"code\": 410, \"reason\": \"Expired\"}")
        return .parts(events, every: .milliseconds(200), then: .reply(end))
    case (true, false):
        let events = [event("DELETED", slice("eu-1", version: 201, first))]
        return .parts(events, every: .milliseconds(200), then: .after(.seconds(300), .reply("")))
    }
}
let tokenFile = NSTemporaryDirectory() + "trunkline-token-\(UUID().uuidString)"
try Data("secret\n".utf8).write(to: URL(fileURLWithPath: tokenFile))

// MARK: - A cluster of the pods

guard let url = URL(string: "http://\(api.endpoint)") else { fatalError("invalid URL") }
let isComplete = Mutex(0)
let pods = KubernetesPods(api: url, namespace: "shop", service: "orders", port: "acme", tokenFile: tokenFile)
let lists = pods.map { list in
    print("found:", list.map { "the \(name($0)) server in \($0.zone ?? "?")" }.joined(separator: ", "))
    isComplete.withLock { $0 += 1 }
    return list
}
// Prefers the servers of its own zone.
try await withCluster(discovering: Discovery(lists), speaking: .standard, changing: { $0.zone = "eu-1" }) { cluster in
    print("answered by the", String(try await cluster.send(Request(type: 0x410)).body))
    // The list, two events, the list after 410, and one event.
    while isComplete.withLock({ $0 }) < 5 { try await Task.sleep(for: .milliseconds(10)) }
    try await Task.sleep(for: .milliseconds(100))
    print("answered by the", String(try await cluster.send(Request(type: 0x410)).body))
}
for request in requests.withLock({ $0 }) { print("request:", request) }

try? FileManager.default.removeItem(atPath: tokenFile)
await api.stop()
await first.stop()
await second.stop()
print("KubernetesDiscovery: done")
