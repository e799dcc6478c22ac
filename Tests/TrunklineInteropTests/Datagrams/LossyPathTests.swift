#if os(Linux)
    import Foundation
    import Testing
    import TrunklineTesting

    @testable import TrunklineCore
    @testable import TrunklineIO

    /// Whether the tests can run on this machine. If not, the reason is printed.
    private let hasLossyPath: Bool = {
        let hasPrograms = ["dnsmasq", "setpriv", "python3"].allSatisfy { ServerProcess.isAvailable($0) }
        let hasDevice = FileManager.default.fileExists(atPath: "/dev/net/tun")
        if !hasDevice { print("Skipped: this machine has no TUN devices.") }
        return NetworkNamespace.isAvailable && hasPrograms && hasDevice
    }()

    /// DNS with dnsmasq, over a path that loses a fifth of all packets: two TUN devices joined by a relay.
    @Suite(
        .tags(.realThreads),
        .serialized,
        .timeLimit(.minutes(5)),
        .enabled(if: hasLossyPath, "no network namespaces, TUN devices, dnsmasq or Python")
    )
    struct LossyPathTests {
        private static let udp: Endpoint = "udp://198.18.77.2:53"
        private static let tcp: Endpoint = "198.18.77.2:53"

        /// Two hosts, a name server on one of them, and the relay between them.
        private final class LossyPath {
            let (near, far): (TestHost, TestHost)
            private var processes: [Process] = []
            private let directory = FileManager.default.temporaryDirectory
                .appendingPathComponent("trunkline-\(UUID().uuidString.prefix(8))")

            init() throws { (near, far) = (try TestHost(), try TestHost()) }

            func start() async throws {
                try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
                let relay = Process()
                relay.executableURL = URL(fileURLWithPath: try #require(ServerProcess.find("python3")))
                relay.arguments = ["-c", Self.relay, near.name, far.name, directory.path]
                relay.standardInput = FileHandle.nullDevice
                try relay.run()
                processes.append(relay)
                while !FileManager.default.fileExists(atPath: directory.appendingPathComponent("ready").path) {
                    try #require(relay.isRunning)
                    try await Task.sleep(for: .milliseconds(10))
                }
                for (host, number) in [(near, 1), (far, 2)] {
                    try host.ip("addr add 198.18.77.\(number)/24 dev tun0")
                    try host.ip("link set tun0 up")
                }
                let long = (0..<12).map { "\($0)-\(String(repeating: "x", count: 200))" }
                let options = [
                    "--user=root", "--group=root", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv",
                    "--no-hosts", "--port=53", "--listen-address=198.18.77.2", "--bind-interfaces", "--local=/test/",
                    "--pid-file=\(directory.path)/pid", "--txt-record=small.test,one",
                    "--txt-record=big.test,\(long.joined(separator: ","))",
                ]
                let script = "setpriv --pdeathsig KILL dnsmasq \"$@\" & wait"
                processes.append(
                    try await NetworkNamespace.start("sh", ["-c", script, "sh"] + options, port: 53, in: far.name)
                )
            }

            /// Lets no datagrams of UDP through, or lets them through again.
            func setBlocksUDP(_ isBlocked: Bool) throws {
                let file = directory.appendingPathComponent("blocks-udp")
                if isBlocked { try Data().write(to: file) } else { try FileManager.default.removeItem(at: file) }
            }

            func stop() {
                // The server has children for its TCP connections.
                let listed = (try? NetworkNamespace.ip("netns pids \(far.name)")) ?? ""
                for process in listed.split(separator: "\n").compactMap({ pid_t($0) }) { kill(process, SIGKILL) }
                for process in processes where process.isRunning { kill(process.processIdentifier, SIGKILL) }
                near.remove()
                far.remove()
                try? FileManager.default.removeItem(at: directory)
            }

            /// Opens a TUN device on each host, and passes on four of five packets.
            private static let relay = """
                import ctypes, fcntl, os, random, select, struct, sys
                libc = ctypes.CDLL(None)
                def tun(host):
                    space = os.open('/run/netns/' + host, os.O_RDONLY)
                    assert libc.setns(space, 0x40000000) == 0
                    device = os.open('/dev/net/tun', os.O_RDWR)
                    fcntl.ioctl(device, 0x400454ca, struct.pack('16sH14x', b'tun0', 0x1001))
                    return device
                near, far, folder = tun(sys.argv[1]), tun(sys.argv[2]), sys.argv[3]
                open(folder + '/ready', 'w').close()
                chance = random.Random(7)
                while True:
                    for device in select.select([near, far], [], [])[0]:
                        packet = os.read(device, 65536)
                        is_udp = len(packet) > 9 and packet[0] >> 4 == 4 and packet[9] == 17
                        if chance.random() < 0.2 or is_udp and os.path.exists(folder + '/blocks-udp'): continue
                        try: os.write(far if device == near else near, packet)
                        except OSError: pass
                """
        }

        private func withPath(_ body: (LossyPath) async throws -> Void) async throws {
            let path = try LossyPath()
            defer { path.stop() }
            try await path.start()
            try await body(path)
        }

        /// Questions may be asked twice. Lost packets are noticed sooner than by default.
        private func options(_ change: (inout ClientOptions) -> Void = { _ in }) -> ClientOptions {
            ClientOptions { options in
                options.requests.retry = .idempotent(tries: 10)
                options.requests.repeatAfter = .milliseconds(100)
                options.requests.retryBudget = nil
                options.requests.timeout = .seconds(60)
                options.failover.errorRate = nil
                change(&options)
            }
        }

        /// Asks again when all copies of a question were lost: a third of them are, and eight fit into 20 s, so that happens
        /// once in 3,500 questions.
        private func ask(_ client: Client) async throws -> Response {
            let question = try Request.dns("small.test", type: 16)
            for _ in 0..<4 {
                do throws(ClientError) {
                    return try await client.send(question, timeout: .seconds(20))
                } catch {
                    guard error.code == .timedOut else { throw error }
                }
            }
            return try await client.send(question)
        }

        @Test func everyQuestionIsAnswered() async throws {
            try await withPath { path in
                let client = Client(to: Self.udp, speaking: DNSCodec(), options: options(), on: path.near.loops())
                try await withThrowingTaskGroup { group in
                    for _ in 0..<20 {
                        group.addTask {
                            for _ in 0..<15 {
                                let answer = try await ask(client)
                                #expect(answer.status == 0 && answer.answerCount == 1 && !answer.isTruncated)
                            }
                        }
                    }
                    try await group.waitForAll()
                }
                let metrics = await client.metrics
                #expect(metrics.responses == 300 && metrics.connection.links == 1)
                // Of 300 questions, about 108 have lost their first datagram or its answer.
                #expect(metrics.repetitions > 30)
                await client.close()
            }
        }

        /// What does not fit into a datagram is asked over TCP.
        @Test func aTruncatedAnswerIsAskedForOverTCP() async throws {
            try await withPath { path in
                let loops = path.near.loops()
                let udp = Client(to: Self.udp, speaking: DNSCodec(), options: options(), on: loops)
                let tcp = Client(to: Self.tcp, speaking: DNSCodec(), options: options(), on: loops)
                let question = try Request.dns("big.test", type: 16)
                #expect(try await udp.send(question).isTruncated)
                let answer = try await tcp.send(question)
                #expect(!answer.isTruncated && answer.body.count > 2_000)
                await udp.close()
                await tcp.close()
            }
        }

        /// UDP stops getting through: TCP is used, and UDP again when it does.
        @Test func tcpIsUsedWhileUDPDoesNotGetThrough() async throws {
            try await withPath { path in
                let options = options {
                    $0.connecting.timeout = .seconds(2)
                    $0.failover.returnsToPreferredAfter = .seconds(2)
                    // Its failure is soon forgotten.
                    $0.failover.halfLife = .seconds(1)
                    $0.liveness.deadline = .seconds(1)
                    // A datagram is answered, or the link is not ready.
                    $0.handshake.perform = { link in
                        for _ in 0..<10 {
                            let question = try Request.dns("small.test", type: 16)
                            if (try? await link.send(question, timeout: .milliseconds(200))) != nil { return }
                        }
                        throw HandshakeRefusal("no answer")
                    }
                }
                let ladder = [Self.udp, Self.tcp]
                let client = Client(to: ladder, speaking: DNSCodec(), options: options, on: path.near.loops())
                let question = try Request.dns("small.test", type: 16)
                // On a busy machine the first link may be one of TCP.
                while await client.endpointOfLink != Self.udp { _ = try await client.send(question) }
                try path.setBlocksUDP(true)
                // Each of these may time out while the client finds out.
                while await client.endpointOfLink != Self.tcp {
                    _ = try? await client.send(question, timeout: .seconds(1))
                }
                _ = try await client.send(question)
                try path.setBlocksUDP(false)
                while await client.endpointOfLink != Self.udp { _ = try await client.send(question) }
                _ = try await client.send(question)
                await client.close()
            }
        }
    }

    extension Client {
        /// The endpoint of the ready link; `nil` if there is none.
        fileprivate var endpointOfLink: Endpoint? {
            get async { if case .ready(let endpoint, _) = await connection.state { endpoint } else { nil } }
        }
    }
#endif
