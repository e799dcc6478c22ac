import Foundation
import Trunkline

/// nginx with its own configuration, on a Unix socket in its own directory.
final class NginxServer {
    private let process: ServerProcess
    /// The port of this machine at which it listens, too.
    let port: UInt16
    private var directory: URL { process.directory }

    /// As root, nginx could become another user. Here it keeps its user and runs in one process, so that it can be
    /// killed by its pid.
    private static func configuration(_ directory: String, _ socketPath: String, _ port: UInt16) -> String {
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
                    listen 127.0.0.1:\(port);
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

    init() async throws {
        (process, port) = try await ServerProcess.atFreePort { port in
            // Its socket exists before it has the port.
            let process = try await ServerProcess("nginx", sign: "pid") { socketPath in
                let directory = URL(fileURLWithPath: socketPath).deletingLastPathComponent()
                let upload = directory.appendingPathComponent("www/upload")
                try FileManager.default.createDirectory(at: upload, withIntermediateDirectories: true)
                let file = directory.appendingPathComponent("nginx.conf")
                let text = Self.configuration(directory.path, socketPath, port)
                try text.write(to: file, atomically: true, encoding: .utf8)
                return [
                    "-p", directory.path, "-c", file.path, "-e", directory.appendingPathComponent("error.log").path,
                ]
            }
            return (process, port)
        }
    }

    var endpoint: Endpoint { .unix(path: process.socketPath) }

    /// The content of files repeats this pattern, whose size is not a power of two.
    static let pattern: Data = {
        var state: UInt64 = 1
        let bytes = (0..<100_003).map { _ in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return UInt8(truncatingIfNeeded: state >> 33)
        }
        return Data(bytes)
    }()

    /// The content of every file from `offset` on; at most as many bytes as the pattern has.
    static func content(at offset: Int, count: Int) -> Data {
        let start = offset % pattern.count
        return count <= pattern.count - start
            ? pattern.subdata(in: start..<start + count)
            : pattern.subdata(in: start..<pattern.count) + content(at: 0, count: count - pattern.count + start)
    }

    /// Writes a file `name` of `count` bytes.
    func writeFile(_ name: String, count: Int) async throws {
        try await writeSpots(name, count: count, every: Self.pattern.count)
    }

    /// Writes a sparse file `name` of `count` bytes. At each multiple of `distance` it has the usual content, for the
    /// size of the pattern, and zeros behind it.
    func writeSpots(_ name: String, count: Int, every distance: Int) async throws {
        let url = directory.appendingPathComponent("www/\(name)")
        try await elsewhere {
            _ = FileManager.default.createFile(atPath: url.path, contents: nil)
            let file = try FileHandle(forWritingTo: url)
            defer { try? file.close() }
            for start in stride(from: 0, to: count, by: distance) {
                try file.seek(toOffset: UInt64(start))
                try file.write(contentsOf: Self.content(at: start, count: min(Self.pattern.count, count - start)))
            }
            try file.truncate(atOffset: UInt64(count))
        }
    }

    /// The number of content bytes in `piece`, which is at `offset` in a file that `writeSpots` made; `nil` if a byte
    /// is wrong.
    static func spots(in piece: Data, at offset: Int, every distance: Int) -> Int? {
        var (found, start) = (0, offset - offset % distance)
        while start < offset + piece.count {
            let range = max(start, offset)..<max(offset, min(start + pattern.count, offset + piece.count))
            if start < range.upperBound, !range.isEmpty {
                let first = piece.startIndex + range.lowerBound - offset
                guard piece[first..<first + range.count] == content(at: range.lowerBound, count: range.count) else {
                    return nil
                }
                found += range.count
            }
            start += distance
        }
        return found
    }

    /// The transfers from `/slowly/` that have ended, in order: path, `OK` if complete, and a full stop.
    var ends: String {
        (try? String(contentsOf: directory.appendingPathComponent("ends"), encoding: .utf8)) ?? ""
    }

    /// Stops the process, like a server that hangs: the kernel still accepts connections.
    func pause() { process.pause() }

    func resume() { process.resume() }

    func kill() async { await process.kill() }

    func start() async throws { try await process.start() }

    func stop() { process.stop() }
}
