import Foundation
import Trunkline

/// A mosquitto of one test: on a Unix socket, with its state, in a directory of its own. Stopped by pid.
final class Broker {
    private let directory: URL
    private let arguments: [String]
    private var process: Process?
    private var socket: URL { directory.appendingPathComponent("s") }
    private var database: URL { directory.appendingPathComponent("mosquitto.db") }

    static let isAvailable = ServerProcess.isAvailable("mosquitto")

    var endpoint: Endpoint { .unix(path: socket.path) }

    /// Starts a broker with these lines in its configuration, which lets in whom the last line of `users` names
    /// ("name:password"), or everyone.
    init(_ configuration: String..., user: (name: String, password: String)? = nil) throws {
        directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("trunkline-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        var lines = ["user root", "listener 0 \(directory.path)/s", "persistence_location \(directory.path)/"]
        lines += configuration
        if let user {
            let passwords = directory.appendingPathComponent("passwords").path
            guard let program = ServerProcess.find("mosquitto_passwd") else { throw NotStarted() }
            let process = try Process.run(
                URL(fileURLWithPath: program),
                arguments: ["-b", "-c", passwords, user.name, user.password]
            )
            process.waitUntilExit()
            lines.append("password_file \(passwords)")
        }
        lines.append("allow_anonymous \(user == nil)")
        let file = directory.appendingPathComponent("mosquitto.conf")
        try lines.joined(separator: "\n").write(to: file, atomically: true, encoding: .utf8)
        arguments = ["-c", file.path]
        try start()
    }

    struct NotStarted: Error {}

    /// Starts the program and waits until its socket is there, for ten seconds at most.
    func start() throws {
        guard let program = ServerProcess.find("mosquitto") else { throw NotStarted() }
        try? FileManager.default.removeItem(at: socket)  // a broker that was killed leaves it behind
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        self.process = process
        let deadline = Date().addingTimeInterval(10)
        while !FileManager.default.fileExists(atPath: socket.path) {
            guard process.isRunning, Date() < deadline else {
                die()
                throw NotStarted()
            }
            Thread.sleep(forTimeInterval: 0.01)
        }
    }

    /// Whether the state that would survive the broker's death holds these bytes.
    func hasSaved(_ text: String) -> Bool {
        (try? Data(contentsOf: database))?.range(of: Data(text.utf8)) != nil
    }

    /// Stops it where it is, as a machine that hangs: the kernel goes on taking bytes and connections.
    func pause() { send(SIGSTOP) }
    func resume() { send(SIGCONT) }

    func die() {
        send(SIGKILL)
        process?.waitUntilExit()
        process = nil
    }

    private func send(_ signal: Int32) {
        if let process, process.isRunning { kill(process.processIdentifier, signal) }
    }

    deinit {
        die()
        try? FileManager.default.removeItem(at: directory)
    }
}
