// Short pieces of code from the articles, so that they compile. Nothing here is called.

import Foundation
import Trunkline
import TrunklineDiagnostics
import TrunklineFoundation
import TrunklineHTTP

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

// MARK: Requests of the server

func serve(_ client: Client, answer: @escaping @Sendable (Bytes) async throws -> Bytes) async throws {
    try await client.serve(maximumConcurrent: 16) { request in
        Frame(.response, type: request.type, body: try await answer(request.body))
    }
}

func refusing(_ symmetric: FrameLayout) -> FrameLayout {
    let layout = symmetric.refusingRequests { request, reason in
        switch reason {
        case .cancelled: nil  // in this protocol, nothing follows a cancellation
        case .overloaded: Frame(.response, type: request.type, status: 503)
        default: Frame(.response, type: request.type, status: 501)
        }
    }
    return layout
}

// MARK: Monitoring

func log(_ line: String) { print(line) }

func monitor(_ client: Client) async {
    for await state in client.states {
        log("\(state)")
    }
    for await report in client.disconnects {
        log(report.isNetworkChange ? "the network of this host changed: \(report)" : "\(report)")
    }
}

func inspect(_ client: Client) async {
    for certificate in await client.diagnostics.tlsSession?.certificates ?? [] {
        log("\(certificate.subject) expires at \(Date(timeIntervalSince1970: Double(certificate.notAfter)))")
    }
}

func report(_ client: Client) async {
    let metrics = await client.metrics
    for percent in [50, 99, 99.9] {
        if let duration = metrics.callDurations.percentile(percent) { log("p\(percent): \(duration)") }
    }
    for (failure, count) in metrics.failures { log("\(failure): \(count)") }
}

func reportRecentDurations(_ client: Client, since earlier: ClientMetrics) async {
    for (endpoint, durations) in await client.metrics.durationsByEndpoint {
        var recent = durations.all
        if let before = earlier.durationsByEndpoint[endpoint] { recent.remove(before.all) }
        guard let duration = recent.percentile(99) else { continue }
        log("\(endpoint.map { "\($0)" } ?? "no link"): p99 \(duration)")
    }
}

func probe(_ acme: FrameLayout, _ options: ClientOptions) async throws -> Int32 {
    let probe = Probe(of: "tls://gateway.example:7443", speaking: acme, options: options) { client in
        _ = try await client.send(Request(type: 0x410))
    }
    let report = try await probe.run()
    log(report.text)
    return report.exitCode
}

func probeTool(_ acme: FrameLayout, _ options: ClientOptions) async -> Int32 {
    let exitCode = await Probe.run(speaking: acme, options: options)
    return exitCode
}

// MARK: Logging

func logs(_ options: inout ClientOptions) {
    options.logging = ClientLogging(name: "gateway") { record in
        print(record)
    }
}

// MARK: Observing

func timelines(_ client: Client, _ request: Request) async throws {
    let recorder = TimelineRecorder()
    _ = try await client.send(request, options: CallOptions(recorder: recorder))
    for timeline in recorder.timelines { log("\(timeline)") }
    for timeline in await client.diagnostics.slowestRequests {
        log("\(timeline.name ?? "type \(timeline.type)"): \(timeline)")
    }
}

struct LinkLog: ClientObserver {
    let interests: ClientEvent.Kinds = [.links, .limits]

    func observe(_ events: [ClientEvent]) {
        for event in events { log("\(event)") }
    }

    func missed(_ count: Int) { log("\(count) events are missing here") }
}

enum Trace {
    @TaskLocal static var id: UInt64?
}

struct TraceContext: ClientInterceptor {
    func intercept(_ call: inout ClientCall) throws(ClientError) -> Completion? {
        guard let id = Trace.id else { return nil }
        call.request["trace"] = id
        call.recordsTimeline = true
        return { result, timeline in
            let duration = timeline?.duration ?? .zero
            log("trace \(id): \((try? result.get()) == nil ? "failed" : "ok") after \(duration)")
        }
    }
}

// MARK: Recording

func saveForWireshark(_ recording: Recording, of layout: FrameLayout, in folder: URL) throws {
    try Data(recording.pcapng(speaking: layout, port: 7000)).write(to: folder.appending(path: "acme.pcapng"))
    let dissector = layout.wiresharkDissector(name: "acme", port: 7000)
    try Data(dissector.utf8).write(to: folder.appending(path: "acme.lua"))
}

// MARK: Requests

/// Waits for a job for up to `wait`.
struct Reserve: TypedRequest {
    static let type: UInt32 = 16
    let wait: Duration
    func encode() -> Bytes { Bytes("\(wait.components.seconds)") }
    static func decode(_ response: Response) -> Bytes { response.body }
}

extension Client {
    nonisolated func send(_ reserve: Reserve) async throws(ClientError) -> Reserve.Reply {
        try await send(reserve, timeout: .after(reserve.wait + .seconds(5)))
    }
}

// MARK: Pushes

struct Move: Sendable {
    let text: String
    init?(_ body: Bytes) { text = String(body) }
}

struct MoveClient {
    let client: Client

    func moves() -> some AsyncSequence<Move, Never> & Sendable {
        client.pushes(ofType: 20).messages.compactMap { Move($0.body) }
    }
}

// MARK: Handshakes

let login = Request(type: 15, body: "secret")
func login(answering challenge: Bytes) -> Request { Request(type: 15, body: challenge) }

func logIn(_ options: inout ClientOptions) {
    options.handshake.perform = { link in
        do throws(ClientError) {
            _ = try await link.send(login)
        } catch {
            guard error.code == .rejected else { throw error }
            throw HandshakeRefusal("the server rejected the login")
        }
    }
    options.handshake.perform = { link in
        let greeting = try await link.nextMessage()
        let response = try await link.send(login(answering: greeting.body))
        guard let number = response["session"] else { throw HandshakeRefusal("the response has no session number") }
        try await link.setDefault("session", to: number)
    }
}

func learnTheInterval(_ options: inout ClientOptions) {
    options.liveness.adaptiveInterval = .seconds(30)...(.seconds(600))
}

func resumeASession(_ resume: @escaping @Sendable (Bytes) -> Request, _ options: inout ClientOptions) {
    options.handshake.perform = { link in
        if let token = await link.savedSession(as: Bytes.self) {
            let response = try await link.send(resume(token))
            if response["resumed"] == 1 { return await link.keepSubscriptions() }
            await link.sessionWasLost()
        }
        await link.saveSession(try await link.send(login).body)
    }
}

// MARK: Requests and their link

func fetch(from cursor: Bytes) -> Request { Request(type: 8, body: cursor) }

func dependOnALink(_ client: Client) async throws -> Response {
    let rows = try await client.withLink { link in
        let cursor = try await link.send(Request(type: 7, body: "open cursor"))
        return try await link.send(fetch(from: cursor.body))
    }
    _ = try await client.send(login, options: CallOptions(isExclusive: true))
    return rows
}

// MARK: Names of requests

let mailCodec = DelimitedCodec(delimiter: "\r\n").namingRequests { request in
    String(request.body.prefix(4))  // "DATA", "MAIL"
}

// MARK: Cancellation over a second connection

/// What cancels the request on a link, as its server has sent it.
struct BackendKey: Sendable {
    private let bytes: Bytes

    init?(_ bytes: Bytes) {
        guard bytes.count == 8 else { return nil }
        self.bytes = bytes
    }

    var cancelRequest: Frame { Frame(.request, type: 80_877_102, body: bytes) }
}

func cancelSeparately(_ startup: Request, _ codec: FrameLayout, _ options: inout ClientOptions) {
    options.handshake.perform = { link in
        let greeting = try await link.send(startup)
        guard let key = BackendKey(greeting.body) else { throw HandshakeRefusal("no key", isPermanent: false) }
        await link.setServerInfo(key)
    }
    options.requests.cancelling = { request in
        guard let key = request.serverInfo(as: BackendKey.self) else { return }
        let connection = Connection(to: request.endpoint, speaking: codec)
        var ends = connection.disconnects.makeAsyncIterator()
        try await connection.write(key.cancelRequest)
        // The server closes the connection when it has sent the signal.
        _ = await ends.next()
        await connection.close()
    }
}

// MARK: A byte for the kind

let rpc = FrameLayout {
    Field.type(UInt8.self)  // 1 request, 2 response, 3 error, 4 event, 5 ping, 6 pong
    Field.serial(UInt32.self)
    Field.integer("method", UInt16.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
}
.roles {
    $0.response = .types(2...3)
    $0.failure = 3
    $0.push = 4
    $0.ping = 5
    $0.pong = 6
}

struct Lookup: TypedRequest {
    static let type: UInt32 = 1
    let name: String
    func encode() -> Bytes { Bytes(name) }
    func prepare(_ request: inout Request) { request["method"] = 7 }
    static func decode(_ response: Response) -> String { String(response.body) }
}

// MARK: Heartbeats in order

/// Lines whose answers come in order, also those to pings.
struct OrderedLines: FrameCodec, HeartbeatCodec, SentFrameCodec {
    private var lines = DelimitedCodec(delimiter: "\n", maximumFrameSize: 512)
    /// What has no answer yet, in order: whether it is a ping.
    private var unanswered: [Bool] = []
    var matching: ResponseMatching { .inOrder }

    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        var frame = frame
        if frame.kind == .ping { frame.kind = .request }  // it looks like one
        try lines.encode(frame, into: &output)
    }

    mutating func noteSent(_ frame: Frame) { unanswered.append(frame.kind == .ping) }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard var frame = try lines.decode(&input) else { return nil }
        if !unanswered.isEmpty, unanswered.removeFirst() { frame.kind = .pong }
        return frame
    }

    func ping(number: UInt64) -> Frame? { Frame(.ping, body: "PING") }
    func pong(answering ping: Frame) -> Frame? { nil }
}

// MARK: Codecs that wrap another one

/// Counts the frames that another codec decodes.
struct CountingCodec<Base: FrameCodec>: FrameCodec {
    var base: Base
    private(set) var count = 0

    init(_ base: Base) { self.base = base }

    var matching: ResponseMatching { base.matching }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let frame = try base.decode(&input) else { return nil }
        count += 1
        return frame
    }

    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        try base.encode(frame, into: &output)
    }
}

extension CountingCodec: CancellingCodec where Base: CancellingCodec {
    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? { base.cancelFrame(for: serial, type: type) }
}

// MARK: Requests that are bound to a link

/// Lines of text. A request whose field "link" is set is refused on any other link.
struct BoundLineCodec: FrameCodec, FieldDefaultsCodec {
    private var lines = DelimitedCodec(delimiter: "\r\n")
    private var link: UInt64?

    var matching: ResponseMatching { lines.matching }

    mutating func setDefaults(from frame: Frame) throws(FrameError) { link = frame["link"] }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard var frame = try lines.decode(&input) else { return nil }
        frame["link"] = link
        return frame
    }

    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        if let bound = frame["link"], bound != link { throw FrameError(.malformed, "bound to link \(bound)") }
        var line = frame
        line["link"] = nil
        try lines.encode(line, into: &output)
    }
}

func delete(with client: Client, _ options: inout ClientOptions) async throws {
    options.handshake.perform = { link in try await link.setDefault("link", to: link.session.number) }

    let job = try await client.send(Request(body: "reserve"))
    var delete = Request(body: "delete 7")
    delete["link"] = job["link"]
    _ = try await client.send(delete)
}

// MARK: Recording

func save(_ text: String) {}

func record(with options: inout ClientOptions) {
    options.recorder = .ring(bytes: 4 << 20)
    options.recorder?.dumpsAutomatically(on: [.halfOpen, .reset, .protocolViolation]) { recording, report in
        log("recorded \(recording.entries.count) entries before: \(report)")
        save(recording.jsonLines)
    }
    options.recorder?.bodies = .types([0x402])
    options.recorder?.fields = ["trace"]
    options.recorder?.maximumContentBytes = 1024
}

// MARK: TLS

struct Secrets: Sendable {
    func passphrase() async throws -> String { "correct horse" }
}

func secure(with secrets: Secrets) {
    let client = Client(to: "tls://gateway.example:7443", speaking: .standard)
    var options = ClientOptions()
    options.tls.roots = .only(.file("/etc/acme/roots.pem"))  // a private authority and no other
    options.tls.identity = TLSIdentity(  // mutual TLS
        certificates: .file("/etc/acme/worker.pem"),
        privateKey: .file("/etc/acme/worker.key"),
        passphrase: { try await secrets.passphrase() }  // only for an encrypted key
    )
    options.tls.serverName = "gateway.example"  // if the endpoint is an IP address
    options.tls.minimumVersion = .tls13
    // The initializer returns nil unless the text is the base64 of 32 bytes.
    if let pin = PublicKeyPin(base64: "dmSe6y…=") { options.tls.pins = [pin] }
    options.handshake.perform = { link in
        guard try await link.send(Request(type: 0x411, body: "STARTTLS")).body == "go on" else {
            throw HandshakeRefusal("the server has no TLS")  // never continue in plaintext
        }
        try await link.startTLS()
    }
    _ = client
}

// MARK: Transports

func connectThroughProxies(_ options: inout ClientOptions, secret: String) throws {
    options.connecting.proxy = .socks5("proxy.example", username: "edge", password: secret)
    options.connecting.proxy = .http("proxy.example", port: 3128)
    options.connecting.proxy = try Proxy.fromEnvironment()
}

func otherEndpoints(_ descriptor: Int32, token: String) -> [Endpoint] {
    let analyzer = Endpoint.command("clangd", ["--log=error"], environment: ["API_TOKEN": token])
    let program = Endpoint.descriptors(reading: 0, writing: 1)
    let socket = Endpoint.descriptors(reading: descriptor, writing: descriptor)
    let host: Endpoint = "vsock://2:7000"
    return [analyzer, program, socket, host]
}

// MARK: Performance

func readings(of sensors: [UInt32], from client: Client) async throws -> [Response] {
    try await withTaskExecutorPreference(client.executor) {
        // Task groups and `async let` inherit the preference. `Task { }` does not.
        try await withThrowingTaskGroup { group in
            for sensor in sensors { group.addTask { try await client.send(Request(type: sensor)) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }
}

// MARK: Many servers

func discoveries(_ lists: AsyncStream<[ClusterEndpoint]>) -> [Discovery] {
    [
        .static(["10.0.0.7:7000", "10.0.0.8:7000"]),
        .dns("orders.svc:7000"),
        .srv("_orders._tcp.example.com"),
        .file("/etc/orders/servers"),
        Discovery(lists),
    ]
}

func makeCluster(_ codec: FrameLayout) -> Cluster {
    Cluster(discovering: .dns("orders.svc:7000"), speaking: codec) {
        $0.zone = "eu-1"
        $0.linksPerEndpoint = 1...4
        $0.ejection?.consecutiveFailures = 3
        $0.isFailure = { $0.status == 503 }
    }
}

/// Sends a twentieth of the requests to the servers of the next version.
struct Canary: BalancingPolicy {
    func pick(
        from candidates: BalancingCandidates,
        using generator: inout some RandomNumberGenerator
    ) -> BalancingCandidates.Server? {
        let isForNext = Double.random(in: 0..<1, using: &generator) < 0.05
        return candidates.lazy
            .filter { $0.isAvailable && ($0.metadata["version"] == "next") == isForNext }
            .min { $0.inFlight < $1.inFlight }
    }
}

func sendByKey(_ cluster: Cluster, _ request: Request, customer: Int) async throws {
    _ = try await cluster.send(request, key: customer)
    _ = cluster.stream(request, options: CallOptions(key: RoutingKey(customer)))
}

func sendLarge(_ cluster: Cluster, _ export: Request) async throws {
    let report = try await cluster.send(export, options: CallOptions(timeout: .seconds(60), isLarge: true))
    _ = report
}

func sendHedged(_ cluster: Cluster, _ request: Request) async throws {
    _ = try await cluster.send(request, hedge: .after(percentile: 0.95))
}

struct Orders<Sender: RequestSender> {
    let sender: Sender

    func cancel(_ order: Bytes) async throws(ClientError) {
        _ = try await sender.send(Request(type: 0x402, body: order))
    }
}

func subscribe(on cluster: Cluster) async throws {
    let prices = try await cluster.subscribe(Request(type: 0x410), on: .one)
    let alarms = try await cluster.subscribe(Request(type: 0x412), on: .all)
    for await case .message(let push) in cluster.pushes() {
        log("\(push.endpoint, default: "?"): \(push.body)")
    }
    try await prices.end(sending: Request(type: 0x411))  // goes to the server that has the subscription
    try await alarms.end(sending: Request(type: 0x413))  // goes to all servers
}

func follow(_ cluster: Cluster) async {
    for await change in cluster.changes {
        guard case .ejected(let endpoint, let time, let reason) = change else { continue }
        log("\(endpoint) is left out for \(time): \(reason)")
    }
    for server in await cluster.metrics.servers {
        log("\(server.endpoint): \(server.state), \(server.inFlight) in flight, score \(server.latencyScore)")
    }
}

// MARK: HTTP

func download(through tunnel: HTTPTunnel) {
    let registration = TunnelURLProtocol.register(tunnel) { $0.url?.host == "api.example.com" }
    let configuration = URLSessionConfiguration.default
    configuration.protocolClasses = [TunnelURLProtocol.self]
    configuration.urlCache = nil  // on Linux: see below
    let session = URLSession(configuration: configuration)
    _ = (registration, session)
    let codec = HTTP1Codec(host: "files.internal") { $0.maximumBodySize = 10 << 30 }
    _ = codec
}

print("Fragments: done")
