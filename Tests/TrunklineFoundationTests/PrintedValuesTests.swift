import Foundation
import Testing
import Trunkline
import TrunklineCluster
import TrunklineDiagnostics
import TrunklineFoundation
import TrunklineGateway
import TrunklineHTTP
import TrunklineTelemetry
import TrunklineTesting

private let secret = "s3cr3t-T0k3n"

/// Printing a value of this package shows no body, token, password or private key that it holds: neither its
/// description, nor an interpolation, nor `dump`, which reads all stored properties.
@Suite(.tags(.realThreads)) struct PrintedValuesTests {}

extension PrintedValuesTests {
    @Test func noPrintedValueShowsASecret() async throws {
        try await Self.withValues { values in
            for (name, value) in values {
                for (way, text) in Self.texts(of: value) {
                    #expect(!Self.reveals(text), "\(way) of \(name): \(text.prefix(2000))")
                }
            }
        }
    }

    /// A new type of the public API must be decided: whether it can hold a secret.
    @Test func everyPublicTypeIsDecided() async throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let modules = ["", "Diagnostics", "Foundation", "Gateway", "HTTP", "Telemetry", "Testing"].map {
            "Trunkline\($0)"
        }
        var types: Set<String> = []
        for module in modules {
            let text = try String(contentsOf: root.appending(path: ".ci/api/\(module).txt"), encoding: .utf8)
            for line in text.split(separator: "\n") {
                let parts = line.components(separatedBy: " | ")
                let words = (parts.last ?? "").split(separator: " ").prefix(3)
                let isType = words.contains { ["struct", "class", "enum", "actor"].contains($0) }
                if parts.count == 2, isType { types.insert(parts[0]) }
            }
        }
        #expect(types.count > 150)
        var shown: Set<String> = []
        try await Self.withValues { values in shown = Set(values.map(\.name)) }
        let decided = shown.union(Self.holders).union(Self.harmless)
        #expect(types.subtracting(decided) == [])
        #expect(decided.subtracting(types) == [])
        #expect(shown.intersection(Self.harmless) == [] && Self.holders.intersection(Self.harmless) == [])
    }

    /// What the checks of this suite find.
    @Test func aSecretIsFound() {
        struct Holder { var text = "-\(secret)-", bytes = Array(secret.utf8) }
        #expect(Self.texts(of: Holder()).allSatisfy { Self.reveals($0.text) })
        #expect(Self.reveals("\(Array(secret.utf8))"))
        #expect(Self.texts(of: [Array(secret.utf8)]).allSatisfy { Self.reveals($0.text) })
        #expect(!Self.reveals("12 bytes"))
    }

    private static func texts(of value: Any) -> [(way: String, text: String)] {
        var dumped = ""
        dump(value, to: &dumped)
        return [("description", "\(value)"), ("debugDescription", String(reflecting: value)), ("dump", dumped)]
    }

    /// Whether `text` contains the secret as text, or as bytes in decimal or hexadecimal digits.
    private static func reveals(_ text: String) -> Bool {
        let decimal = secret.utf8.map { "\($0)" }.joined(separator: " ")
        let numbers = text.split { !$0.isNumber }.joined(separator: " ")
        let hexadecimal = secret.utf8.map { String($0, radix: 16) }.joined()
        return text.contains(secret) || text.contains("PRIVATE KEY") || numbers.contains(decimal)
            || text.lowercased().contains(hexadecimal)
    }

    // MARK: The values

    private struct Authorizing: ClientInterceptor, ClientObserver, ReconnectPolicy {
        let token = secret

        func intercept(_ call: inout ClientCall) throws(ClientError) -> Completion? { nil }
        func observe(_ events: [ClientEvent]) {}
        func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision { .giveUp }
    }

    private struct Login: Codable, Sendable { var number: Int }
    private struct Password: Codable, Sendable { var password = secret }

    /// The method or the type of a typed request helps to find it. `dump` and an interpolation used to show the parameters.
    @Test func typedRequestsShowWhatTheyAreCalled() {
        #expect("\(JSONRPCRequest("a\nb", Password(), replyingWith: JSONRPCVoid.self))" == "JSON-RPC request a\\nb")
        #expect("\(JSONRequest<Password, Login>(Password()))" == "JSON request of type 0x402")
    }

    /// Calls `body` with types that can hold a secret, each with one inside.
    private static func withValues(_ body: ([(name: String, value: Any)]) -> Void) async throws {
        let bytes = Bytes(secret)
        var frame = Frame(.request, type: 1, serial: 2, body: bytes)
        frame[bytes: "token"] = bytes
        var request = Request(type: 1, body: bytes)
        request.head = bytes
        let response = Response(body: bytes)
        let headers: HTTP1Headers = ["Authorization": "Bearer \(secret)", "cookie": secret, "Host": "a"]
        let identity = TLSIdentity(
            certificates: .text(secret),
            privateKey: .text("-----BEGIN PRIVATE KEY-----\n\(secret)"),
            passphrase: { secret }
        )
        let authority = try TestAuthority()
        let endpoint = Endpoint.host("user:\(secret)@server.invalid", port: 7000)
        let layout = FrameLayout {
            Field.type(UInt16.self)
            Field.serial(UInt32.self)
            Field.bytes("token", bytes.count, default: Array(bytes))
            Field.length(UInt32.self, counting: .body)
            Field.body
        }
        let options = ClientOptions {
            $0.tls.identity = identity
            $0.tls.roots = .only(.text(secret))
            $0.interceptors = [Authorizing()]
            $0.observers = [Authorizing()]
            $0.recorder = .ring()
            $0.recorder?.bodies = .all
        }
        let connectionOptions = ConnectionOptions { $0.tls = options.tls }
        var receiveBuffer = ReceiveBuffer(bytes)
        _ = receiveBuffer.readBytes(3)
        var sendBuffer = SendBuffer()
        sendBuffer.append(bytes)
        let login = JSONRequest<Login, Login>(Login(number: 1))
        let jsonError = failure { try JSONRequest.decode(Response(body: "{\"number\": \(secret)}"), for: login) }
        let rejection = ClientError(
            .rejected,
            .answered,
            "status 7",
            endpoint: endpoint,
            attempts: [ClientError.Attempt(endpoint: endpoint, cause: try #require(jsonError))],
            response: response,
            cause: jsonError
        )
        let proxyError = failure { try Proxy(parsing: "http://edge:\(secret)@proxy:port") }
        var call = frame
        call[bytes: "method"] = "m"
        let endpointError = failure { try Endpoint(parsing: "user:\(secret)@host:7000") }
        let recording = try Recording(
            jsonLines: """
                {"recording":1}
                {"t":1,"sent":"request","bytes":12,"body":"\(secret.utf8.map { String($0, radix: 16) }.joined())",\
                "fields":{"token":"\(secret.utf8.map { String($0, radix: 16) }.joined())"}}
                """
        )
        guard case .sent(let header)? = recording.entries.first?.content else { throw CancellationError() }

        let loops = EventLoops(count: 1)
        let client = Client(to: endpoint, speaking: .standard, options: options, on: loops)
        let connection = Connection(to: endpoint, speaking: .standard, options: connectionOptions, on: loops)
        let serverIdentity = try authority.identity(for: "localhost")
        let server = try await LoopbackServer.start(
            speaking: .standard,
            options: LoopbackServer.Options { $0.tls = LoopbackServer.TLS(serverIdentity) },
            handler: { _ in .reply(bytes) }
        )
        let tunnelOptions = HTTPTunnel.Options { $0.httpAdditionalHeaders = ["Authorization": "Bearer \(secret)"] }
        let exporter = OTLPExporter(
            to: endpoint,
            path: "/v1/metrics?key=\(secret)",
            headers: ["Authorization": "Bearer \(secret)", "api-key": secret],
            options: options,
            on: loops
        ) { [] }
        let pending = client.start(request)
        let stream = client.stream(request)
        let pushes = client.pushes()
        let found = ClusterEndpoint(endpoint, metadata: ["token": secret])
        let discovery = Discovery.dns(.host("user:\(secret)@server.invalid", port: 7000))
        let cluster = Cluster(discovering: .static([found]), speaking: .standard, options: options, on: loops)
        let gateway = HTTPGateway(allowing: ["https://api.example.com"])
        body([
            ("Bytes", bytes), ("CacheKey", CacheKey(request)), ("CachingSender", CachingSender(client)),
            ("Client", client),
            ("ClientDiagnostics", client.diagnostics), ("ClientError", rejection),
            ("ClientError.Attempt", rejection.attempts[0]), ("ClientOptions", options),
            ("ClientOptions.TLS", options.tls), ("ClientOptions.TLS.Roots", options.tls.roots),
            ("Cluster", cluster), ("ClusterDiagnostics", cluster.diagnostics), ("ClusterEndpoint", found),
            ("Discovery", discovery),
            ("Connection", connection), ("ConnectionDiagnostics", connection.diagnostics),
            ("ConnectionOptions", connectionOptions), ("Endpoint", endpoint),
            ("Proxy", Proxy.socks5("edge:\(secret)@proxy.invalid", username: "edge", password: secret)),
            ("ProxyError", try #require(proxyError)), ("EndpointError", try #require(endpointError)),
            ("EventLoops", loops),
            ("Field", Field.bytes("token", bytes.count, default: Array(bytes))), ("Frame", frame),
            ("FrameLayout", layout), ("PEM", identity.certificates), ("PendingRequest", pending),
            ("Push", Push.message(PushMessage(body: bytes))), ("PushKey", PushKey.name(bytes)),
            ("PushMessage", PushMessage(body: bytes)), ("PushSelection", PushSelection.forKey(.name(bytes))),
            ("PushStream", pushes), ("RoutingKey", RoutingKey(secret)), ("ReceiveBuffer", receiveBuffer),
            ("Recording", recording), ("Recording.Entry", recording.entries[0]),
            ("Recording.Content", recording.entries[0].content), ("Recording.Header", header),
            ("Recording.Field", header.fields[0]), ("Recording.Field.Value", header.fields[0].value),
            ("Probe", Probe(of: endpoint, speaking: layout, options: options) { _ in _ = secret }),
            ("RecorderOptions", options.recorder as Any), ("ReplyStream", stream), ("Request", request),
            ("Response", response), ("SendBuffer", sendBuffer), ("TLSIdentity", identity),
            // TrunklineHTTP
            ("HTTP1Headers", headers), ("HTTP1Part", HTTP1Part.trailers(headers)),
            (
                "HTTP1Request",
                HTTP1Request(.get, "/private?token=\(secret)", headers: headers, body: bytes)
            ),
            ("HTTP1Response", HTTP1Response(headers: headers, body: bytes)),
            // TrunklineTelemetry
            ("OTLPExporter", exporter),
            // TrunklineFoundation
            ("HTTPTunnel", HTTPTunnel(client, options: tunnelOptions)), ("HTTPTunnel.Options", tunnelOptions),
            ("JSONDecodingError", try #require(jsonError)),
            ("JSONRequest", JSONRequest<Password, Login>(Password())),
            ("JSONRPCRequest", JSONRPCRequest("m", Password(), replyingWith: JSONRPCVoid.self)),
            ("JSONRPCRequest", JSONRPCNotification("m", [secret])),
            ("JSONRPCCall", JSONRPCCall(call) as Any), ("JSONRPCError", JSONRPCError(1, "m", data: "\"\(secret)\"")),
            // TrunklineGateway
            ("HTTPGateway", gateway),
            // TrunklineTesting
            ("LoopbackServer", server), ("LoopbackServer.TLS", LoopbackServer.TLS(identity)),
            ("LoopbackServer.Options", LoopbackServer.Options { $0.tls = LoopbackServer.TLS(identity) }),
            ("Reaction", Reaction.sequence([.reply(frame), .garbage(bytes)])), ("TestAuthority", authority),
        ])
        pending.cancel()
        await client.closeNow()
        await cluster.closeNow()
        await connection.closeNow()
        await server.stop()
    }

    private static func failure(_ body: () throws -> Any) -> (any Error)? {
        do {
            _ = try body()
            return nil
        } catch {
            return error
        }
    }

    /// Types that hold only values of the types above, or those in their state, which is behind a lock or an actor.
    private static let holders: Set<String> = [
        "AbandonedRequest", "BalancingCandidates", "BalancingCandidates.Server", "ClientCall", "ClientEvent",
        "ClientEvent.Content", "ClusterChange", "Handshaker",
        "LinkSender", "OpenRequest",
        "PushStream.AsyncIterator", "ReplyStream.AsyncIterator", "Subscription", "Timeline", "Timeline.Try",
        "Timeline.Condition", "Timeline.Link", "TimelineRecorder", "DisconnectReport", "ConnectionState",
        "ReconnectFailure", "Recording.Call", "Recording.Event", "Recording.EventField", "NetworkRoute",
        "HTTP1ReplyStream", "HTTP1ReplyStream.AsyncIterator", "HTTP1Codec",
        "OTLPExporter.Failure", "HTTPTunnel.Body", "HTTPTunnel.Body.AsyncIterator", "TunnelURLProtocol",
        "TunnelURLProtocol.Registration", "JSONRPCCodec", "LoopbackServer.Journal",
        "LoopbackServer.WaitError", "Replay",
        "ServerExchange", "SimulatedNetwork", "CodecConformance", "CodecConformance.Sample",
        "CodecConformance.Preamble", "LateResponse",
    ]

    /// Types without bytes, tokens or keys of a peer. A `ServerReason` shows the words of a peer on purpose. The reports of `CodecConformance` show bytes on purpose: they are
    /// those of its samples.
    private static let harmless: Set<String> = [
        "AddressFamilies", "DigestError", "DigestError.Code", "MessageDigest",
        "Backoff", "ByteOrder", "CachePolicy", "CallOptions", "CertificateExpiry", "CertificateExpiry.Owner",
        "CachingSender.Metrics", "CachingSender.Options", "Checksum", "Checksum.Scope",
        "ClientMetrics", "ClientMetrics.CallDurations", "ClientMetrics.EventQueueMetrics", "ClientMetrics.Failure",
        "ClientMetrics.Limits", "ClientMetrics.Serving", "ClientMetrics.Waiting",
        "ClientCall.Form", "ClientError.Code", "ClientError.Fate", "ClientEvent.AcceptedRequest",
        "ClientEvent.AnsweredRequest", "ClientEvent.Kinds", "ClientEvent.Limit", "ClientEvent.ReadyLink",
        "ClientEvent.Value", "ClientEvent.Wait", "ClientLogging", "ClientOptions.Connecting",
        "ClientOptions.Diagnosis", "ClientOptions.Failover", "ClientOptions.Failover.ErrorRate",
        "ClientOptions.Handshake", "ClientOptions.Inbound", "ClientOptions.Liveness", "ClientOptions.Network",
        "ClientOptions.Outbound", "ClientOptions.Reconnecting", "ClientOptions.Requests",
        "ClientOptions.TLS.Verification", "Cluster.Metrics", "Cluster.ServerMetrics", "Cluster.ServerMetrics.State",
        "Cluster.SubscriptionScope",
        "ClusterOptions", "ClusterOptions.Ejection", "LeastLoaded", "RoundRobin",
        "ConnectionMetrics",
        "ContentType", "CountedPayloadCodec",
        "CountedPayloadCodec.Payload", "DelimitedCodec", "DisconnectCause", "DisconnectReport.Party",
        "DisconnectReport.Phase", "EndpointOrder", "EventDelivery", "FailureCode", "Frame.Answers", "Frame.Kind",
        "Frame.LinkEnding",
        "FrameError",
        "FrameError.Code", "FrameLayout.Roles", "FrameLayout.Roles.Statuses", "HandshakeRefusal",
        "CancelKind", "HandshakeRefusal.Kind", "ServingRefusal", "Proxy.Kind", "ProxyFailure", "ProcessExit",
        "ProxyHeader",
        "Hedge",
        "HeartbeatMode",
        "KeepAliveOptions", "LatencyHistogram", "LayoutBuilder",
        "LayoutError", "LengthCount", "LengthPrefixedCodec", "LengthPrefixedCodec.Length", "LinkOverlap", "LoopDelay",
        "LoopDelay.Reason", "LearnedInterval", "LearnedInterval.Change", "LogRecord", "ProbeReport",
        "ProbeReport.Health", "ProbeReport.Problem",
        "LogRecord.Level", "NetworkPath", "PublicKeyPin", "PushBuffering", "PushBuffering.Overflow",
        "ReconnectDecision", "RecorderOptions.Bodies", "Recording.Outcome", "RecordingError", "RepeatedField",
        "ReplyBuffering", "ReplyBuffering.Overflow", "RequestID", "RequestState", "ResponseMatching", "RetryAfterField",
        "RetryBudget", "RetryPolicy", "Role", "RoundTripTime", "RouteChangePolicy", "ServerReason", "SessionID",
        "TCPInformation",
        "TLSCertificate",
        "TLSFailure", "TLSSession", "TLSVersion", "Timeout", "TransportError", "TransportError.Code",
        "UnknownContentType", "HTTPTunnel.Metrics", "HTTPTunnel.Policy", "HTTPTunnel.Route", "HTTPGateway.Metrics",
        "HTTPGateway.Options", "HTTPOrigin", "HTTP1Request.Method", "CacheSnapshot", "ClientSnapshot",
        "ClusterSnapshot",
        "PrometheusText", "JSONRPCCodec.Dialect", "JSONRPCCodec.Dialect.Cancellation", "JSONRPCCodec.Framing",
        "JSONRPCCodec.IDs",
        "JSONRPCError.Code", "JSONRPCVoid",
        "CodecConformance.Report", "CodecConformance.Side", "CodecConformance.Violation",
        "LoopbackServer.WaitError.Reason", "NameAnswer", "NetworkConditions", "SimulatedClock",
        "SimulatedClock.Instant", "SimulationError", "SimulationLimits", "TestAuthority.Usage",
    ]
}
