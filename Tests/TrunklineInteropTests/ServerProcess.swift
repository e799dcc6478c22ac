import Foundation

/// A server of somebody else's, started for one test on a Unix socket in a directory of its own and stopped by pid.
///
/// It is waited for on other threads than those that tests share.
final class ServerProcess {
    private var process = Process()
    private let program: String
    private let arguments: [String]
    /// The file that tells that it is there.
    private let sign: String
    let directory: URL
    let socketPath: String

    /// Where `program` is installed; `nil`, with a printed reason, when it is not.
    ///
    /// With `TRUNKLINE_REQUIRE_SERVERS`, which the project's own check does, a missing server is not skipped.
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

    /// Starts `program` and waits until it listens at its socket, or the file that is called so beside it is there, for ten
    /// seconds at most.
    ///
    /// `arguments` may put files into the directory, which is that of the socket.
    init(
        _ program: String,
        sign: String = "s",
        arguments: (_ socketPath: String) async throws -> [String]
    ) async throws {
        directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("trunkline-\(UUID().uuidString.prefix(8))")
        socketPath = directory.appendingPathComponent("s").path
        self.sign = directory.appendingPathComponent(sign).path
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

    /// Starts with a port that is free, and with another one if somebody was faster.
    static func atFreePort<Server>(_ start: (UInt16) async throws -> Server) async throws -> Server {
        for _ in 0..<3 {
            do { return try await start(try freePort()) } catch is NotStarted {}
        }
        return try await start(try freePort())
    }

    /// Starts it again at the same socket, after `kill`.
    func start() async throws {
        guard let path = Self.find(program) else { throw NotStarted(description: "\(program) is not installed") }
        let (program, arguments, sign) = (program, arguments, sign)
        process = try await elsewhere {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: path)
            process.arguments = arguments
            process.standardInput = FileHandle.nullDevice
            try process.run()
            let deadline = Date().addingTimeInterval(10)
            while !Self.isThere(sign) {
                guard process.isRunning, Date() < deadline else {
                    Foundation.kill(process.processIdentifier, SIGKILL)
                    throw NotStarted(description: "\(program) did not make \(sign)")
                }
                Thread.sleep(forTimeInterval: 0.01)
            }
            return process
        }
    }

    /// A socket is there when it can be connected to: its file is made before anybody listens.
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

    /// Stops it where it is, as a machine that hangs: the kernel goes on taking bytes and connections.
    func pause() { Foundation.kill(process.processIdentifier, SIGSTOP) }

    /// Lets it go on.
    func resume() { Foundation.kill(process.processIdentifier, SIGCONT) }

    /// Kills it and waits until it is gone; what it had in its directory stays, but for the socket.
    func kill() async {
        let process = process
        Self.kill(process)
        try? await elsewhere { while process.isRunning { Thread.sleep(forTimeInterval: 0.001) } }
        for file in [socketPath, sign] { try? FileManager.default.removeItem(atPath: file) }
    }

    /// Not by SIGTERM: the child inherits the signal mask of the thread that started it, which blocks that.
    private static func kill(_ process: Process) {
        if process.isRunning { Foundation.kill(process.processIdentifier, SIGKILL) }
    }

    /// Kills it, and removes its directory.
    func stop() {
        Self.kill(process)
        try? FileManager.default.removeItem(at: directory)
    }

    deinit { stop() }
}

/// Does what takes long on a thread of its own, as those that tests share are few.
func elsewhere<Result: Sendable>(_ work: @escaping @Sendable () throws -> Result) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Swift.Result { try work() }) }
    }
}
