import Foundation

/// A server of somebody else's, started for one test on a Unix socket in a directory of its own and stopped by pid.
final class ServerProcess {
    private var process = Process()
    private let program: String
    private let arguments: [String]
    let directory: URL
    let socketPath: String

    /// Where `program` is installed; `nil`, with a printed reason, when it is not.
    ///
    /// With `TRUNKLINE_REQUIRE_SERVERS` set, which the project's own check does, a missing server is not skipped.
    static func find(_ program: String) -> String? {
        let path = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"]
            .map { "\($0)/\(program)" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
        if path == nil { print("Skipped: \(program) is not installed (Debian: apt-get install \(program)).") }
        return path
    }

    static func isAvailable(_ program: String) -> Bool {
        find(program) != nil || ProcessInfo.processInfo.environment["TRUNKLINE_REQUIRE_SERVERS"] != nil
    }

    struct NotStarted: Error, CustomStringConvertible {
        let description: String
    }

    /// Starts `program` and waits until its socket accepts connections, for ten seconds at most.
    ///
    /// `arguments` may put files into the directory, which is that of the socket.
    init(_ program: String, arguments: (_ socketPath: String) throws -> [String]) throws {
        directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("trunkline-\(UUID().uuidString.prefix(8))")
        socketPath = directory.appendingPathComponent("s").path
        self.program = program
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        self.arguments = try arguments(socketPath)
        try start()
    }

    /// Starts it again at the same socket, after `kill`.
    func start() throws {
        guard let path = Self.find(program) else { throw NotStarted(description: "\(program) is not installed") }
        process = Process()
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let deadline = Date().addingTimeInterval(10)
        while !FileManager.default.fileExists(atPath: socketPath) {
            guard process.isRunning, Date() < deadline else {
                stop()
                throw NotStarted(description: "\(program) made no socket at \(socketPath)")
            }
            Thread.sleep(forTimeInterval: 0.01)
        }
    }

    /// Stops it where it is, as a machine that hangs: the kernel goes on taking bytes and connections.
    func pause() { Foundation.kill(process.processIdentifier, SIGSTOP) }

    /// Lets it go on.
    func resume() { Foundation.kill(process.processIdentifier, SIGCONT) }

    /// Kills it; what it had in its directory stays, but for the socket.
    func kill() {
        if process.isRunning {
            // Not SIGTERM: the child inherits the signal mask of the pool's thread that started it, which blocks that.
            Foundation.kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
        try? FileManager.default.removeItem(atPath: socketPath)
    }

    func stop() {
        kill()
        try? FileManager.default.removeItem(at: directory)
    }

    deinit { stop() }
}
