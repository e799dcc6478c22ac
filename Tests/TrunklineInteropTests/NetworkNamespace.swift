import Foundation

/// A network namespace with one host, connected by a pair of virtual interfaces. Its cable can be pulled.
///
/// Needs root, `ip` (Debian: iproute2) and a kernel with network namespaces and `veth`.
final class NetworkNamespace {
    private let name: String
    private let near: String
    private let far: String
    /// The address of the host inside.
    let address: String
    private var processes: [Process] = []

    struct Failed: Error, CustomStringConvertible {
        let description: String
    }

    /// Creates the namespace.
    init() throws {
        let id = UInt16.random(in: 0 ... .max)
        // Names of interfaces have at most 15 characters. The addresses are from 198.18.0.0/15, which RFC 2544 reserves
        // for network tests.
        (name, near, far) = ("trunkline-\(id)", "tl\(id)a", "tl\(id)b")
        let network = "198.18.\(id >> 8)"
        let host = Int(id & 0xFC)
        address = "\(network).\(host + 2)"
        do {
            try Self.ip("netns add \(name)")
            try Self.ip("link add \(near) type veth peer name \(far) netns \(name)")
            try Self.ip("addr add \(network).\(host + 1)/30 dev \(near)")
            try Self.ip("link set \(near) up")
            try Self.ip("-n \(name) addr add \(address)/30 dev \(far)")
            try Self.ip("-n \(name) link set \(far) up")
        } catch {
            remove()
            throw error
        }
    }

    /// Discards every packet in both directions silently.
    func pullCable() throws { try Self.ip("-n \(name) link set \(far) down") }

    /// Starts `program` in the namespace, and waits at most ten seconds until `port` accepts connections.
    func start(_ program: String, _ arguments: [String], port: Int) async throws {
        processes.append(try await Self.start(program, arguments, port: port, in: name))
    }

    /// Starts `program` in the namespace `name`, and waits at most ten seconds until `port` accepts connections.
    static func start(_ program: String, _ arguments: [String], port: Int, in name: String) async throws -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: try path(of: "ip"))
        process.arguments = ["netns", "exec", name, program] + arguments
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let deadline = Date().addingTimeInterval(10)
        // The port in hexadecimal, in the state of listening: proc(5), /proc/net/tcp.
        let entry = ":" + String(format: "%04X", port) + " 00000000:0000 0A"
        while true {
            let table = try? String(contentsOfFile: "/proc/\(process.processIdentifier)/net/tcp", encoding: .utf8)
            if let table, table.contains(entry) { return process }
            guard process.isRunning, Date() < deadline else { throw Failed(description: "\(program) does not listen") }
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    /// Kills the processes started in the namespace, and removes it.
    func remove() {
        for process in processes where process.isRunning {
            kill(process.processIdentifier, SIGKILL)  // `ip netns exec` has become the program
        }
        processes = []
        // Removing one interface removes the pair. The namespace itself may exist for a moment longer.
        _ = try? Self.ip("link del \(near)")
        _ = try? Self.ip("netns del \(name)")
    }

    deinit { remove() }

    private static func path(of program: String) throws -> String {
        let found = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map { "\($0)/\(program)" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
        guard let found else { throw Failed(description: "\(program) is not installed (Debian: iproute2)") }
        return found
    }

    /// Runs `ip`, and returns what it prints.
    ///
    /// Not with `Process`, which sees the end of a program when a socket is closed that another program, started at the
    /// same time, may have inherited: a server that runs until other tests end, which may wait for this thread.
    @discardableResult
    static func ip(_ arguments: String) throws -> String {
        #if os(Linux)
            // A file: the end of a pipe could be inherited as well.
            let output = FileManager.default.temporaryDirectory.appendingPathComponent("ip-\(UUID().uuidString)")
            defer { try? FileManager.default.removeItem(at: output) }
            var actions = unsafe posix_spawn_file_actions_t()
            unsafe posix_spawn_file_actions_init(&actions)
            defer { unsafe _ = posix_spawn_file_actions_destroy(&actions) }
            unsafe posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
            unsafe posix_spawn_file_actions_addopen(&actions, 1, output.path, O_WRONLY | O_CREAT, 0o600)
            unsafe posix_spawn_file_actions_adddup2(&actions, 1, 2)
            let program = try path(of: "ip")
            let words = [program] + arguments.split(separator: " ").map(String.init)
            var argv = unsafe words.map { unsafe strdup($0) } + [nil]
            var environment = unsafe [strdup("PATH=/usr/sbin:/usr/bin:/sbin:/bin"), nil]
            defer { unsafe (argv + environment).forEach { unsafe free($0) } }
            var child: pid_t = 0
            let code = unsafe posix_spawn(&child, program, &actions, nil, &argv, &environment)
            guard code == 0 else { throw Failed(description: "ip \(arguments): error \(code)") }
            var status: Int32 = 0
            while unsafe waitpid(child, &status, 0) < 0, errno == EINTR {}
            let text = try String(contentsOf: output, encoding: .utf8)
            guard status == 0 else { throw Failed(description: "ip \(arguments): \(text)") }
            return text
        #else
            throw Failed(description: "network namespaces exist on Linux only")
        #endif
    }

    /// Whether namespaces can be created on this machine. If not, the reason is printed.
    ///
    /// Always true with `TRUNKLINE_REQUIRE_SERVERS`, which `.ci/run` sets.
    static let isAvailable: Bool = {
        if TestEnvironment.requiresServers { return true }
        guard getuid() == 0 else {
            print("Skipped: network namespaces need root.")
            return false
        }
        do {
            try NetworkNamespace().remove()
            return true
        } catch {
            print("Skipped: network namespaces are not available: \(error)")
            return false
        }
    }()
}
