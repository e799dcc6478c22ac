import Foundation
import Trunkline

/// A mosquitto server for one test.
struct Broker {
    let server: ServerProcess
    var endpoint: Endpoint { .unix(path: server.socketPath) }

    static let isAvailable = ServerProcess.isAvailable("mosquitto")

    /// Starts a broker with these lines in its configuration. It accepts every client, or only `user`.
    init(_ configuration: String..., user: (name: String, password: String)? = nil) async throws {
        server = try await ServerProcess("mosquitto") { socketPath in
            let directory = URL(fileURLWithPath: socketPath).deletingLastPathComponent()
            var lines = ["user root", "listener 0 \(socketPath)", "persistence_location \(directory.path)/"]
            lines += configuration + ["log_type error", "allow_anonymous \(user == nil)"]
            if let user {
                let passwords = directory.appendingPathComponent("passwords").path
                let program = ServerProcess.find("mosquitto_passwd") ?? "mosquitto_passwd"
                let arguments = ["-b", "-c", passwords, user.name, user.password]
                try await elsewhere {
                    try Process.run(URL(fileURLWithPath: program), arguments: arguments).waitUntilExit()
                }
                lines.append("password_file \(passwords)")
            }
            let file = directory.appendingPathComponent("mosquitto.conf")
            try lines.joined(separator: "\n").write(to: file, atomically: true, encoding: .utf8)
            return ["-c", file.path]
        }
    }

    /// Whether the saved state, which survives a kill of the broker, contains `text`.
    func hasSaved(_ text: String) -> Bool {
        let database = server.directory.appendingPathComponent("mosquitto.db")
        return (try? Data(contentsOf: database))?.range(of: Data(text.utf8)) != nil
    }
}
