import Foundation
import Synchronization
import Trunkline
import TrunklineCluster
import TrunklineTelemetry

/// A small service, as a user would build it, for the incidents of `.ci/incidents.py`: workers send requests through one
/// client or cluster. Writes the log to the standard output and, every half second, the page of metrics to a file. Ends when
/// its standard input ends.
@main struct IncidentService {
    private let settings: Settings
    private let sender: any RequestSender
    private let snapshot: @Sendable () async -> any MetricsSnapshot
    private let close: @Sendable () async -> Void

    static func main() async throws {
        try await IncidentService(Settings(CommandLine.arguments)).run()
    }

    private init(_ settings: Settings) throws {
        self.settings = settings
        let (layout, options) = (settings.layout, settings.options)
        var endpoints = try settings.all("--endpoint").map { try Endpoint(parsing: $0) }
        endpoints += settings.all("--command").map { Endpoint.command("sh", ["-c", $0]) }
        if settings.has("--cluster") {
            let list = endpoints.map { ClusterEndpoint($0) }
            let discovery = settings["--list"].map { Discovery.file($0) } ?? .static(list)
            let cluster = Cluster(discovering: discovery, speaking: layout, options: options)
            sender = cluster
            snapshot = { ClusterSnapshot(of: await cluster.metrics, named: "incident") }
            close = { await cluster.close() }
        } else {
            let client = Client(to: endpoints, speaking: layout, options: options)
            sender = client
            snapshot = { ClientSnapshot(of: await client.metrics, named: "incident") }
            close = { await client.close() }
        }
    }

    private func run() async throws {
        let (sender, settings) = (sender, settings)
        let timeout = Timeout.seconds(Double(settings["--timeout"] ?? "") ?? 2)
        let pause = Duration.seconds(Double(settings["--pause"] ?? "") ?? 0.1)
        await withTaskGroup { tasks in
            for worker in 0..<(Int(settings["--workers"] ?? "") ?? 50) {
                tasks.addTask {
                    var options = CallOptions()
                    options.retry = .never
                    while !Task.isCancelled {
                        let request = Request(type: 0x10, body: Bytes("\(worker)"))
                        // The log and the metrics say what failed.
                        _ = try? await sender.send(request, timeout: timeout, options: options)
                        try? await Task.sleep(for: pause)
                    }
                }
            }
            tasks.addTask {
                while !Task.isCancelled {
                    try? await writeMetrics()
                    try? await Task.sleep(for: .milliseconds(500))
                }
            }
            if settings.has("--reads-slowly") {
                tasks.addTask {
                    for await _ in sender.pushes(ofType: 1).messages { try? await Task.sleep(for: .milliseconds(50)) }
                }
            }
            await endOfInput()
            tasks.cancelAll()
        }
        await close()
        try await writeMetrics()
    }

    private func writeMetrics() async throws {
        guard let path = settings["--metrics"] else { return }
        let page = PrometheusText.page(of: [await snapshot()])
        try page.write(toFile: path, atomically: true, encoding: .utf8)
    }

    private func endOfInput() async {
        await withCheckedContinuation { continuation in
            // A thread, because reading blocks it.
            Thread.detachNewThread {
                while readLine() != nil {}
                continuation.resume()
            }
        }
    }
}

/// The arguments of the command: names that begin with two hyphens, and their values.
private struct Settings: Sendable {
    private let arguments: [String]

    init(_ arguments: [String]) { self.arguments = Array(arguments.dropFirst()) }

    func has(_ name: String) -> Bool { arguments.contains(name) }
    func all(_ name: String) -> [String] { zip(arguments, arguments.dropFirst()).filter { $0.0 == name }.map(\.1) }
    subscript(name: String) -> String? { all(name).last }

    var layout: FrameLayout {
        let hasFewSerials = has("--few-serials")
        return FrameLayout {
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
            $0.goAway = 2
            $0.success = 0
            $0.serials = hasFewSerials ? 1...64 : 1...0xFFFF
        }
    }

    var options: ClientOptions {
        ClientOptions { options in
            options.logging = ClientLogging(name: "incident") { record in
                // Each line at once, also into a file.
                FileHandle.standardOutput.write(Data("\(record)\n".utf8))
            }
            if let proxy = self["--proxy"] { options.connecting.proxy = try? Proxy(parsing: proxy) }
            if has("--impatient") {
                (options.liveness.probeAfter, options.liveness.deadline) = (.seconds(1), .seconds(2))
            }
            if let roots = self["--roots"] { options.tls.roots = .only(.file(roots)) }
            if let certificate = self["--certificate"], let key = self["--key"] {
                options.tls.identity = TLSIdentity(certificates: .file(certificate), privateKey: .file(key))
            }
            if let token = self["--token"] {
                options.handshake.perform = { link in
                    do throws(ClientError) {
                        _ = try await link.send(Request(type: 0x11, body: Bytes(token)))
                    } catch {
                        guard error.code == .rejected else { throw error }
                        throw HandshakeRefusal("the token is wrong")
                    }
                }
            }
        }
    }
}
