// A service as it runs in production: settings from its environment, a log, TLS with files that are rotated, pages for
// Prometheus and for probes, and an orderly end at SIGTERM. It needs no package but this one.
//
// Without settings it runs against a server of its own, and sends SIGTERM to itself. Leave out `Example` and its lines
// in a program of your own.

import Foundation
import Synchronization
import Trunkline
import TrunklineHTTP
import TrunklineTelemetry
import TrunklineTesting

// MARK: - Settings

/// What the program reads from its environment.
struct Settings {
    /// The servers. The first one is preferred, and the others are for failover.
    let endpoints: [Endpoint]
    let token: String
    /// Files in the PEM format. Without `roots`, the roots of the system are trusted.
    let roots, certificate, key: String?
    /// The port of the pages; 0 for any free port.
    let port: UInt16

    init(_ environment: [String: String]) throws(SettingsError) {
        func value(_ name: String) -> String? {
            let text = environment[name]?.trimmingCharacters(in: .whitespacesAndNewlines) ?? ""
            return text.isEmpty ? nil : text
        }
        func required(_ name: String) throws(SettingsError) -> String {
            guard let text = value(name) else { throw SettingsError("\(name) is not set") }
            return text
        }
        func file(_ name: String) throws(SettingsError) -> String? {
            guard let path = value(name) else { return nil }
            guard FileManager.default.isReadableFile(atPath: path) else {
                throw SettingsError("\(name): cannot read the file \(path)")
            }
            return path
        }

        var endpoints: [Endpoint] = []
        for text in try required("GATEWAY_ENDPOINTS").components(separatedBy: ",") {
            do throws(EndpointError) {
                endpoints.append(try Endpoint(parsing: text.trimmingCharacters(in: .whitespaces)))
            } catch {
                throw SettingsError("GATEWAY_ENDPOINTS: \(error)")
            }
        }
        self.endpoints = endpoints
        token = try required("GATEWAY_TOKEN")
        roots = try file("GATEWAY_ROOTS")
        certificate = try file("GATEWAY_CERTIFICATE")
        key = try file("GATEWAY_KEY")
        guard (certificate == nil) == (key == nil) else {
            throw SettingsError("set both GATEWAY_CERTIFICATE and GATEWAY_KEY, or neither")
        }
        if roots ?? certificate != nil, let plain = endpoints.first(where: { !$0.isSecured }) {
            throw SettingsError("GATEWAY_ENDPOINTS: with certificates, write tls:// before \(plain)")
        }
        let port = value("HTTP_PORT") ?? "8080"
        guard let number = UInt16(port) else {
            throw SettingsError("HTTP_PORT: \"\(port)\" is not a number from 0 to 65535")
        }
        self.port = number
    }
}

/// The environment is not valid.
struct SettingsError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// Writes a line to the standard error. Unlike `write(_:)`, it does not end the program if that fails.
func report(_ line: String) {
    try? FileHandle.standardError.write(contentsOf: Data("\(line)\n".utf8))
}

// MARK: - The client

/// The frames of the gateway.
let gateway = FrameLayout {
    Field.constant([0xCA, 0xFE])
    Field.type(UInt16.self)
    Field.serial(UInt32.self)
    Field.status(UInt16.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
}
.roles {
    $0.ping = 0
    $0.push = 1
    $0.success = 0
}

extension Settings {
    var options: ClientOptions {
        ClientOptions { options in
            options.logging = ClientLogging(name: "gateway") { record in report("\(record)") }
            options.handshake.perform = { [token] link in
                do throws(ClientError) {
                    _ = try await link.send(Request(type: 0x11, body: Bytes(token)))
                } catch {
                    guard error.code == .rejected else { throw error }
                    throw HandshakeRefusal("the token of GATEWAY_TOKEN was refused")
                }
            }
            // The client reads these files again when they have changed.
            if let roots { options.tls.roots = .only(.file(roots)) }
            if let certificate, let key {
                options.tls.identity = TLSIdentity(certificates: .file(certificate), privateKey: .file(key))
            }
            // Readiness must not wait for a request, because an instance that is not ready receives none.
            options.reconnecting.keepsLinkWarm = true
            options.reconnecting.retriesPermanentCauses = true
            // Less than the 30 s that Kubernetes waits between SIGTERM and SIGKILL.
            options.requests.drainTimeout = .seconds(20)
        }
    }
}

// MARK: - The service

final class Service: Sendable {
    let client: Client
    private let ending = Atomic(false)
    private var isEnding: Bool { ending.load(ordering: .acquiring) }

    init(_ client: Client) { self.client = client }

    /// The work of the program: here, a request now and then.
    func work() async {
        while !isEnding {
            // The log and the metrics say what fails.
            _ = try? await client.send(Request(type: 0x10, body: "work"), timeout: .seconds(5))
            try? await Task.sleep(for: .milliseconds(100))
        }
    }

    /// The content of a page; `nil` if there is no such page.
    func page(_ path: String) async -> Page? {
        switch path {
        case "/metrics":
            let snapshot = ClientSnapshot(of: await client.metrics, named: "gateway")
            return Page(200, PrometheusText.page(of: [snapshot]), PrometheusText.contentType)
        case "/ready":
            if isEnding { return Page(503, "ending\n") }
            let state = await client.metrics.connection.state
            return Page(state.isReady ? 200 : 503, "\(state)\n")
        case "/live": return Page(200, "alive\n")
        default: return nil
        }
    }

    /// Waits for a signal. Then ends the readiness, and closes the client: requests in flight may finish. A second
    /// signal closes it at once.
    func run(until signals: AsyncStream<Int32>) async {
        for await signal in signals {
            report("signal \(signal): closing")
            break
        }
        ending.store(true, ordering: .releasing)
        await withTaskGroup { tasks in
            tasks.addTask { await self.client.close() }
            tasks.addTask {
                for await signal in signals {
                    report("signal \(signal): closing at once")
                    await self.client.closeNow()
                    break
                }
            }
            await tasks.next()
            tasks.cancelAll()
        }
    }
}

// MARK: - Pages over HTTP

/// A page, or the status of a request that has none.
struct Page {
    let status: Int, text: String, contentType: String

    init(_ status: Int, _ text: String = "", _ contentType: String = "text/plain; charset=utf-8") {
        (self.status, self.text, self.contentType) = (status, text, contentType)
    }
}

/// A small HTTP server for probes and Prometheus: one request a connection, each on a thread of its own. Use the HTTP
/// server of your program instead, if it has one.
final class PageServer: Sendable {
    private static let maximumConnections = 16
    private static let maximumHeadSize = 8 * 1024
    /// For reading a request, and again for writing its response.
    private static let timeout = Duration.seconds(3)

    let port: UInt16
    private let listener: Int32
    private let page: @Sendable (String) async -> Page?
    private let room = DispatchSemaphore(value: maximumConnections)
    /// A descriptor for a connection when the process has no other; -1 if it is in use.
    private let reserve = Mutex(open("/dev/null", O_RDONLY | O_CLOEXEC))

    /// Listens at `port` on all IPv4 addresses.
    init(port: UInt16, page: @escaping @Sendable (String) async -> Page?) throws {
        self.page = page
        #if canImport(Glibc)
            let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #else
            let listener = socket(AF_INET, SOCK_STREAM, 0)
        #endif
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        // A new instance may listen while connections of the one before are in TIME_WAIT.
        var yes: Int32 = 1
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        let isListening = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, size) == 0 && listen(listener, 64) == 0 && getsockname(listener, $0, &size) == 0
            }
        }
        guard isListening else {
            throw SettingsError("HTTP_PORT: cannot listen at \(port): \(String(cString: strerror(errno)))")
        }
        self.listener = listener
        self.port = UInt16(bigEndian: address.sin_port)
    }

    /// Accepts connections until the program ends. Further ones wait in the queue of the kernel.
    func start() {
        Thread.detachNewThread { [self] in
            while true {
                room.wait()
                var connection = accept(listener, nil, nil)
                if connection < 0, [EMFILE, ENFILE].contains(errno), releaseReserve() {
                    connection = accept(listener, nil, nil)
                }
                if connection >= 0 {
                    Thread.detachNewThread { [self, connection] in
                        serve(connection)
                        end(connection)
                        room.signal()
                    }
                } else {
                    // Trying again at once would use all of a processor.
                    Thread.sleep(forTimeInterval: 0.1)
                    restoreReserve()
                    room.signal()
                }
            }
        }
    }

    /// Closes the descriptor that is kept for the time when the process has no other: the metrics say then what is wrong.
    private func releaseReserve() -> Bool {
        reserve.withLock { descriptor in
            defer { descriptor = -1 }
            return descriptor >= 0 && close(descriptor) == 0
        }
    }

    private func restoreReserve() {
        reserve.withLock { if $0 < 0 { $0 = open("/dev/null", O_RDONLY | O_CLOEXEC) } }
    }

    /// Closes a connection. If there is no reserve, its descriptor becomes that: once closed, it could be taken by others.
    private func end(_ connection: Int32) {
        reserve.withLock { descriptor in
            guard descriptor < 0 else { return _ = close(connection) }
            shutdown(connection, Int32(SHUT_RDWR))
            descriptor = connection
        }
    }

    private func serve(_ connection: Int32) {
        guard let head = readHead(from: connection) else { return }
        let (page, hasBody) = answer(to: head)
        let body = Array(page.text.utf8)
        let fields = [
            "HTTP/1.1 \(page.status) ", "Content-Type: \(page.contentType)", "Content-Length: \(body.count)",
            "Connection: close", page.status == 405 ? "Allow: GET, HEAD\r\n\r\n" : "\r\n",
        ]
        let deadline = ContinuousClock.now + Self.timeout
        write(Array(fields.joined(separator: "\r\n").utf8) + (hasBody ? body : []), to: connection, until: deadline)
        // A connection that is closed with unread bytes is reset, and then the response may be lost.
        shutdown(connection, Int32(SHUT_WR))
        var rest = [UInt8](repeating: 0, count: 4096)
        while wait(for: POLLIN, on: connection, until: deadline),
            recv(connection, &rest, rest.count, Int32(MSG_DONTWAIT)) > 0
        {}
    }

    /// The bytes of a request up to the empty line, or too many without one; `nil` if they do not come in time.
    private func readHead(from connection: Int32) -> [UInt8]? {
        let deadline = ContinuousClock.now + Self.timeout
        var head: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while wait(for: POLLIN, on: connection, until: deadline) {
            let count = recv(connection, &buffer, buffer.count, Int32(MSG_DONTWAIT))
            guard count > 0 else { return nil }
            head += buffer.prefix(count)
            if head.count > Self.maximumHeadSize || hasEnd(head) { return head }
        }
        return nil
    }

    private func hasEnd(_ head: [UInt8]) -> Bool { head.firstRange(of: Array("\r\n\r\n".utf8)) != nil }

    private func answer(to head: [UInt8]) -> (page: Page, hasBody: Bool) {
        guard head.count <= Self.maximumHeadSize, hasEnd(head) else { return (Page(431), true) }
        let line = String(decoding: head.prefix { $0 != UInt8(ascii: "\r") }, as: UTF8.self)
        let words = line.components(separatedBy: " ")
        guard words.count == 3, words[2].hasPrefix("HTTP/1.") else { return (Page(400), true) }
        guard ["GET", "HEAD"].contains(words[0]) else { return (Page(405), true) }
        let path = words[1].components(separatedBy: "?")[0]
        // Unstructured, because a thread cannot await. The thread may block, because it runs no tasks.
        let (result, done) = (Result(), DispatchSemaphore(value: 0))
        Task { [page] in
            let page = await page(path) ?? Page(404)
            result.page.withLock { $0 = page }
            done.signal()
        }
        done.wait()
        return (result.page.withLock { $0 }, words[0] == "GET")
    }

    private final class Result: Sendable { let page = Mutex(Page(500)) }

    private func write(_ bytes: [UInt8], to connection: Int32, until deadline: ContinuousClock.Instant) {
        var rest = bytes[...]
        while !rest.isEmpty, wait(for: POLLOUT, on: connection, until: deadline) {
            let count = rest.withUnsafeBytes { send(connection, $0.baseAddress, $0.count, Int32(MSG_DONTWAIT)) }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }

    /// Waits until a socket can be read or written; false if it cannot before the deadline.
    private func wait(for event: Int32, on connection: Int32, until deadline: ContinuousClock.Instant) -> Bool {
        var entry = pollfd(fd: connection, events: Int16(event), revents: 0)
        while true {
            let left = ContinuousClock.now.duration(to: deadline)
            guard left > .zero else { return false }
            let count = poll(&entry, 1, Int32(left / .milliseconds(1)) + 1)
            if count > 0 { return true }
            if count < 0, errno != EINTR { return false }
        }
    }
}

// MARK: - Signals

/// The signals that ask the program to end: SIGTERM of the platform, SIGINT of a terminal.
final class EndingSignals {
    let all: AsyncStream<Int32>
    private let sources: [any DispatchSourceSignal]

    init() {
        let (all, continuation) = AsyncStream.makeStream(of: Int32.self)
        self.all = all
        sources = [SIGTERM, SIGINT].map { number in
            // Without this the signal would end the program.
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { continuation.yield(number) }
            source.resume()
            return source
        }
    }
}

// MARK: - The program

var environment = ProcessInfo.processInfo.environment
let example = try await Example()
if let example { environment = example.environment }

let signals = EndingSignals()
// A client that closes its connection early must not end the program.
signal(SIGPIPE, SIG_IGN)

do {
    let settings = try Settings(environment)
    let service = Service(Client(to: settings.endpoints, speaking: gateway, options: settings.options))
    let server = try PageServer(port: settings.port) { path in await service.page(path) }
    server.start()
    report("/metrics, /ready and /live at port \(server.port)")
    // Unstructured, because the end of the tasks below must not cancel it.
    let visit = Task { await example?.visit(server.port, service.client) }

    await withTaskGroup { tasks in
        // The first link, before the first request.
        tasks.addTask { try? await service.client.connect() }
        for _ in 0..<4 { tasks.addTask { await service.work() } }
        await service.run(until: signals.all)
        tasks.cancelAll()
    }
    await visit.value
    await example?.server.stop()
} catch let error as SettingsError {
    report("\(error)")
    exit(78)  // EX_CONFIG of <sysexits.h>
}
print("InProduction: done")

// MARK: - The example

/// A server for this program, if its environment names none.
final class Example: Sendable {
    let server: LoopbackServer
    let environment: [String: String]

    init?() async throws {
        if ProcessInfo.processInfo.environment["GATEWAY_ENDPOINTS"] != nil { return nil }
        let authority = try TestAuthority()
        let identity = try authority.identity(for: "127.0.0.1")
        server = try await LoopbackServer.start(
            speaking: gateway,
            options: LoopbackServer.Options { $0.tls = .init(identity) }
        ) { request in
            switch request.type {
            case 0x11: request.body == "secret" ? .reply("") : .status(401, "")
            case 0x12: .after(.milliseconds(500), .echo)
            default: .echo
            }
        }
        let roots = NSTemporaryDirectory() + "in-production-\(getpid()).pem"
        try authority.root.write(toFile: roots)
        environment = [
            "GATEWAY_ENDPOINTS": "\(server.endpoint)", "GATEWAY_TOKEN": "secret", "GATEWAY_ROOTS": roots,
            "HTTP_PORT": "0",
        ]
    }

    /// Reads the pages as a platform would, and ends the program while a request is in flight.
    func visit(_ port: UInt16, _ client: Client) async {
        do {
            try await readPages(port, client)
        } catch {
            report("\(error)")
            exit(1)
        }
    }

    private func readPages(_ port: UInt16, _ client: Client) async throws {
        let page = Client(to: .host("127.0.0.1", port: port), speaking: HTTP1Codec(host: "localhost"))
        try await client.connect()
        print("/ready: \(try await page.send(HTTP1Request(.get, "/ready")).status)")
        let metrics = try await page.send(HTTP1Request(.get, "/metrics"))
        for line in String(metrics.body).split(separator: "\n") where line.contains("link_established_total{") {
            print(line)
        }
        print("/missing: \(try await page.send(HTTP1Request(.get, "/missing")).status)")
        print("POST: \(try await page.send(HTTP1Request(.post, "/ready", body: "x")).status)")

        let slow = client.start(Request(type: 0x12, body: "slow"))
        kill(getpid(), SIGTERM)
        while try await page.send(HTTP1Request(.get, "/ready")).status == 200 {}
        print("/ready after SIGTERM: 503")
        print("the request in flight was answered: \(try await slow.value.body == "slow")")
        await page.close()
        unlink(environment["GATEWAY_ROOTS"] ?? "")
    }
}
