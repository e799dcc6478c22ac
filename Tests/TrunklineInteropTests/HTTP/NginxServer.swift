import Foundation
import Trunkline

/// nginx with a configuration of its own, on a Unix socket in a directory of its own.
final class NginxServer {
    private let directory: URL
    private let process: ServerProcess

    /// As root it could become another user; here it stays who it is, in one process, so that it ends by its pid.
    private static func configuration(_ directory: String, _ socketPath: String, _ port: UInt16?) -> String {
        let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map { "\($0)_temp_path \(directory)/temp;" }
        return """
            daemon off;
            master_process off;
            pid \(directory)/pid;
            error_log \(directory)/error.log;
            events { worker_connections 128; }
            http {
                access_log off;
                # Whether all of it was sent: OK or nothing.
                log_format ends "$uri $request_completion.";
                \(paths.joined(separator: " "))
                keepalive_requests 1000000;
                client_max_body_size 1g;
                default_type text/plain;
                root \(directory)/www;
                server {
                    listen unix:\(socketPath);
                    \(port.map { "listen 127.0.0.1:\($0);" } ?? "")
                    # Content-Length
                    location = /number { return 200 $arg_n; }
                    location = /few { keepalive_requests 100; return 200 $arg_n; }
                    location = /fails { return 500 sorry; }
                    # What may be changed on the way has no length: in chunks, or up to the end of the connection.
                    location /chunked/ { alias \(directory)/www/; sub_filter ~never~ x; sub_filter_types *; }
                    location /trailed/ {
                        alias \(directory)/www/; sub_filter ~never~ x; sub_filter_types *; add_trailer X-Length $arg_n;
                    }
                    location /ended/ {
                        alias \(directory)/www/; sub_filter ~never~ x; sub_filter_types *; chunked_transfer_encoding off;
                    }
                    location /upload/ { dav_methods PUT DELETE; }
                    location = /said { return 200 "$request_method $content_length $http_x_a"; }
                    \([301, 302, 303, 307, 308].map { "location = /\($0) { return \($0) /said?from=\($0); }" }.joined(separator: " "))
                    location /zipped/ { alias \(directory)/www/; gzip on; gzip_min_length 1; gzip_types *; }
                    location /slowly/ { alias \(directory)/www/; limit_rate 1k; access_log \(directory)/ends ends; }
                }
            }
            """
    }

    /// - Parameter port: Where it listens as well, of this machine.
    init(port: UInt16? = nil) throws {
        let directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("trunkline-nginx-\(UUID().uuidString.prefix(8))")
        self.directory = directory
        try FileManager.default.createDirectory(
            at: directory.appendingPathComponent("www/upload"),
            withIntermediateDirectories: true
        )
        let file = directory.appendingPathComponent("nginx.conf")
        process = try ServerProcess("nginx") { socketPath in
            try? Self.configuration(directory.path, socketPath, port).write(to: file, atomically: true, encoding: .utf8)
            return ["-p", directory.path, "-c", file.path, "-e", directory.appendingPathComponent("error.log").path]
        }
    }

    var endpoint: Endpoint { .unix(path: process.socketPath) }

    /// What the content of a file follows from: as long as no power of two.
    static let pattern: Data = {
        var state: UInt64 = 1
        let bytes = (0..<100_003).map { _ in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return UInt8(truncatingIfNeeded: state >> 33)
        }
        return Data(bytes)
    }()

    /// The bytes from `offset` of every file; at most as many as there are in the pattern.
    static func content(at offset: Int, count: Int) -> Data {
        let start = offset % pattern.count
        return count <= pattern.count - start
            ? pattern.subdata(in: start..<start + count)
            : pattern.subdata(in: start..<pattern.count) + content(at: 0, count: count - pattern.count + start)
    }

    /// A file of `count` bytes called `name`.
    func writeFile(_ name: String, count: Int) throws {
        let url = directory.appendingPathComponent("www/\(name)")
        _ = FileManager.default.createFile(atPath: url.path, contents: nil)
        let file = try FileHandle(forWritingTo: url)
        defer { try? file.close() }
        for start in stride(from: 0, to: count, by: Self.pattern.count) {
            try file.write(contentsOf: Self.content(at: start, count: min(Self.pattern.count, count - start)))
        }
    }

    /// A file of `count` zeros, which takes no room.
    func writeHole(_ name: String, count: UInt64) throws {
        let url = directory.appendingPathComponent("www/\(name)")
        _ = FileManager.default.createFile(atPath: url.path, contents: nil)
        let file = try FileHandle(forWritingTo: url)
        defer { try? file.close() }
        try file.truncate(atOffset: count)
    }

    /// What ended at `/slowly/`, in order: path, `OK` if all of it was sent, and a full stop.
    var ends: String {
        (try? String(contentsOf: directory.appendingPathComponent("ends"), encoding: .utf8)) ?? ""
    }

    /// It hangs: the kernel goes on taking connections.
    func pause() { process.pause() }

    func resume() { process.resume() }

    func kill() { process.kill() }

    func start() throws { try process.start() }

    func stop() {
        process.stop()
        try? FileManager.default.removeItem(at: directory)
    }

    deinit { stop() }
}
