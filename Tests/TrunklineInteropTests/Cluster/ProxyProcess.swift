import Foundation
import Trunkline

/// HAProxy or nginx as a proxy of TCP connections, in front of servers on Unix sockets or ports of this machine.
final class ProxyProcess {
    enum Program: String, CaseIterable { case haproxy, nginx }

    private let process: ServerProcess
    /// Where it listens: an endpoint for each group of servers.
    let endpoints: [Endpoint]

    private static let streamModule = "/usr/lib/nginx/modules/ngx_stream_module.so"

    /// Whether the program is installed. If not, the reason is printed.
    static func isAvailable(_ program: Program) -> Bool {
        guard ServerProcess.isAvailable(program.rawValue), program == .nginx else {
            return ServerProcess.isAvailable(program.rawValue)
        }
        let hasModule = FileManager.default.fileExists(atPath: streamModule)
        if !hasModule {
            print("Skipped: nginx has no stream module (Debian: apt-get install libnginx-mod-stream).")
        }
        return hasModule || TestEnvironment.requiresServers
    }

    /// Starts a proxy that listens at a port for each of `groups`, and passes each connection on to the server of the
    /// group that has the fewest.
    ///
    /// - Parameter idleTimeout: The time, in whole milliseconds, after which it cuts a connection without traffic.
    init(_ program: Program, to groups: [[Endpoint]], idleTimeout: Duration) async throws {
        let milliseconds = Int(idleTimeout / .milliseconds(1))
        (process, endpoints) = try await ServerProcess.atFreePort { first in
            let ports = try groups.indices.map { $0 == 0 ? first : try freePort() }
            let sign = program == .haproxy ? "s" : "pid"
            let process = try await ServerProcess(program.rawValue, sign: sign) { socketPath in
                let directory = URL(fileURLWithPath: socketPath).deletingLastPathComponent()
                let file = directory.appendingPathComponent("configuration")
                let fronts = zip(ports, groups).enumerated()
                switch program {
                case .haproxy:
                    // The socket is there only to show that the process listens.
                    let listeners = fronts.map { number, front in
                        """
                        listen l\(number)
                            bind 127.0.0.1:\(front.0)
                            \(number == 0 ? "bind unix@\(socketPath)" : "")
                            balance leastconn
                            \(Self.lines(front.1) { "server s\($0) \(Self.address($1, unix: "unix@"))" })
                        """
                    }
                    let text = """
                        defaults
                            mode tcp
                            timeout connect 5s
                            timeout client \(milliseconds)ms
                            timeout server \(milliseconds)ms
                        \(listeners.joined(separator: "\n"))

                        """
                    try text.write(to: file, atomically: true, encoding: .utf8)
                    return ["-db", "-q", "-f", file.path]
                case .nginx:
                    let listeners = fronts.map { number, front in
                        """
                        upstream u\(number) {
                            least_conn;
                            \(Self.lines(front.1) { "server \(Self.address($1, unix: "unix:"));" })
                        }
                        server { listen 127.0.0.1:\(front.0); proxy_pass u\(number); proxy_timeout \(milliseconds)ms; }
                        """
                    }
                    // One process, so that it can be killed by its pid.
                    let text = """
                        load_module \(Self.streamModule);
                        daemon off;
                        master_process off;
                        pid \(directory.path)/pid;
                        error_log \(directory.path)/error.log;
                        events { worker_connections 512; }
                        stream {
                        \(listeners.joined(separator: "\n"))
                        }

                        """
                    try text.write(to: file, atomically: true, encoding: .utf8)
                    return ["-p", directory.path, "-c", file.path, "-e", directory.path + "/error.log"]
                }
            }
            return (process, ports.map { .host("127.0.0.1", port: $0) })
        }
    }

    private static func lines(_ servers: [Endpoint], _ line: (Int, Endpoint) -> String) -> String {
        servers.enumerated().map { line($0, $1) }.joined(separator: "\n    ")
    }

    private static func address(_ server: Endpoint, unix prefix: String) -> String {
        if case .unix(let path) = server.target { prefix + path } else { "\(server)" }
    }

    func stop() { process.stop() }
}
