import Foundation

/// A server program that is started for one test, on a Unix socket in its own directory, and stopped by its pid.
///
/// Threads other than those that tests share wait for it.
final class ServerProcess {
    private var process = Process()
    private let program: String
    private let arguments: [String]
    /// The file that exists when the server is ready.
    private let sign: String
    private let stopSignal: Int32
    /// The TCP port of 127.0.0.1 at which it accepts connections when it is ready, instead of the sign.
    private let port: UInt16?
    let directory: URL
    let socketPath: String

    /// The path of `program`; `nil`, with a printed reason, if it is not installed.
    ///
    /// With `TRUNKLINE_REQUIRE_SERVERS`, which `.ci/run` sets, the tests of a missing server fail instead of being
    /// skipped.
    static func find(_ program: String) -> String? {
        let path = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"]
            .map { "\($0)/\(program)" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
        if path == nil { print("Skipped: \(program) is not installed (Debian: apt-get install \(program)).") }
        return path
    }

    static func isAvailable(_ program: String) -> Bool {
        find(program) != nil || TestEnvironment.requiresServers
    }

    struct NotStarted: Error, CustomStringConvertible {
        let description: String
    }

    /// Starts `program`, and waits at most ten seconds until it listens at its socket, or until the file `sign` exists
    /// in the same directory.
    ///
    /// `port` is that of a server without a socket in that directory. `arguments` may create files in the directory. `stopSignal` ends the program; a child process
    /// inherits the signal mask of the thread that started it, so others than `SIGKILL` are for programs that set the mask.
    init(
        _ program: String,
        sign: String = "s",
        stopSignal: Int32 = SIGKILL,
        port: UInt16? = nil,
        arguments: (_ socketPath: String) async throws -> [String]
    ) async throws {
        directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("trunkline-\(UUID().uuidString.prefix(8))")
        socketPath = directory.appendingPathComponent("s").path
        self.sign = directory.appendingPathComponent(sign).path
        self.stopSignal = stopSignal
        self.port = port
        self.program = program
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        do {
            self.arguments = try await arguments(socketPath)
        } catch {
            try? FileManager.default.removeItem(at: directory)
            throw error
        }
        try await start()
    }

    /// Starts a server at a free port, and at another one if the port was taken meanwhile.
    static func atFreePort<Server>(_ start: (UInt16) async throws -> Server) async throws -> Server {
        for _ in 0..<3 {
            do { return try await start(try freePort()) } catch is NotStarted {}
        }
        return try await start(try freePort())
    }

    /// Starts the server again at the same socket, after `kill`.
    func start() async throws {
        guard let path = Self.find(program) else { throw NotStarted(description: "\(program) is not installed") }
        let (program, arguments, sign, port) = (program, arguments, sign, port)
        process = try await elsewhere {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: path)
            process.arguments = arguments
            process.standardInput = FileHandle.nullDevice
            try process.run()
            let deadline = Date().addingTimeInterval(10)
            while !(port.map { Self.accepts($0) } ?? Self.isThere(sign)) {
                guard process.isRunning, Date() < deadline else {
                    Foundation.kill(process.processIdentifier, SIGKILL)
                    throw NotStarted(
                        description: "\(program) did not make \(port.map { "a connection at port \($0)" } ?? sign)"
                    )
                }
                Thread.sleep(forTimeInterval: 0.01)
            }
            return process
        }
    }

    /// A socket is ready when it accepts a connection: its file exists before the server listens.
    private static func isThere(_ sign: String) -> Bool {
        let attributes = try? FileManager.default.attributesOfItem(atPath: sign)
        guard attributes?[.type] as? FileAttributeType == .typeSocket else { return attributes != nil }
        var address = sockaddr_un()
        guard sign.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else { return false }
        let descriptor = streamSocket(AF_UNIX)
        defer { close(descriptor) }
        address.sun_family = sa_family_t(AF_UNIX)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: sign.utf8) }
        return unsafe withUnsafePointer(to: &address) {
            unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
    }

    private static func accepts(_ port: UInt16) -> Bool { unsafe succeeds(at: port) { unsafe connect($0, $1, $2) } }

    /// Stops the process, like a machine that hangs: the kernel still accepts bytes and connections.
    func pause() { Foundation.kill(process.processIdentifier, SIGSTOP) }

    /// Resumes the process.
    func resume() { Foundation.kill(process.processIdentifier, SIGCONT) }

    /// Kills the process and waits until it has ended. Its directory remains, without the socket.
    func kill() async {
        let process = process
        killProcess()
        try? await elsewhere { while process.isRunning { Thread.sleep(forTimeInterval: 0.001) } }
        for file in [socketPath, sign] { try? FileManager.default.removeItem(atPath: file) }
    }

    private func killProcess() {
        if process.isRunning { Foundation.kill(process.processIdentifier, stopSignal) }
    }

    /// Kills the process, and removes its directory.
    func stop() {
        killProcess()
        try? FileManager.default.removeItem(at: directory)
    }

    deinit { stop() }
}

/// Does work that takes long on a separate thread, because the threads that tests share are few.
func elsewhere<Result: Sendable>(_ work: @escaping @Sendable () throws -> Result) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Swift.Result { try work() }) }
    }
}
