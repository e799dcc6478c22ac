import Foundation

/// A small server based on Python's `http.server`, on a port of this machine.
final class PythonServer {
    private let process: ServerProcess
    let port: UInt16

    /// The script creates a file in place of a socket, and logs requests and closed connections to a file beside it.
    private static let script = #"""
        import gzip, http.server, sys, threading

        place = sys.argv[1]
        lock = threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments): pass

            def note(self, text):
                with lock, open(place + ".log", "a") as log: log.write(text + "\n")

            def answer(self, status, fields, body):
                self.send_response(status)
                for name, value in fields: self.send_header(name, value)
                if status != 304: self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD" and status != 304: self.wfile.write(body)

            def content(self):
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                whole = b""
                while True:
                    piece = self.rfile.read(int(self.rfile.readline(), 16))
                    self.rfile.readline()
                    if not piece: return whole
                    whole += piece

            def do(self):
                body = self.content()
                path = self.path.partition("?")[0]
                if path[1:] in ("301", "302", "303", "307", "308"):
                    self.answer(int(path[1:]), [("Location", "/said?from=" + path[1:])], b"moved")
                elif path == "/absolute":
                    self.answer(302, [("Location", "http://" + self.headers["Host"] + "/said")], b"")
                elif path == "/round":
                    self.answer(302, [("Location", "/round")], b"")
                elif path == "/fresh":
                    isFresh = self.headers.get("If-None-Match") == '"tea"'
                    self.answer(304 if isFresh else 200, [("ETag", '"tea"'), ("X-A", "b")], b"tea")
                elif path == "/zipped":
                    fields = [("Content-Encoding", "gzip"), ("Content-Type", "text/plain; charset=utf-8")]
                    self.answer(200, fields, gzip.compress(b"tea " * 10000))
                elif path == "/several":
                    fields = [("X-A", "1"), ("X-A", "2, 3"), ("x-a", "4"), ("X-Empty", ""), ("X-Blank", "  a  b  "),
                        ("Set-Cookie", "a=1; Path=/"), ("Set-Cookie", "b=2, 3"), ("Content-Type", "image/png")]
                    self.answer(200, fields, b"\x00\xff")
                elif path == "/chunked":
                    self.send_response(200)
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    if self.command == "HEAD": return
                    for count in (1, 70000, 3): self.wfile.write(b"%x\r\n%s\r\n" % (count, b"t" * count))
                    self.wfile.write(b"0\r\n\r\n")
                elif path == "/ended":
                    self.send_response(200)
                    self.send_header("Connection", "close")
                    self.end_headers()
                    if self.command != "HEAD": self.wfile.write(b"tea" * 30000)
                elif path in ("/hangs", "/hangs-in-body"):
                    if path == "/hangs-in-body":
                        self.send_response(200)
                        self.send_header("Content-Length", "1000000")
                        self.end_headers()
                        self.wfile.write(b"tea")
                        self.wfile.flush()
                    self.note("begun " + path)
                    try: seen = self.connection.recv(1)
                    except OSError: seen = b""
                    self.note(("closed " if not seen else "went on ") + path)
                    self.close_connection = True
                elif path == "/said":
                    names = sorted(name for name in self.headers if name.lower() in ("content-type", "content-length",
                        "transfer-encoding") or name.lower().startswith("x-") or name.lower() in ("authorization", "cookie", "range"))
                    fields = ["%s: %s" % (name, self.headers[name]) for name in names]
                    said = "%s %s %s\n%s" % (self.command, self.path, body.decode("latin-1"), "\n".join(fields))
                    self.answer(200, [("Content-Type", "text/plain")], said.encode("latin-1"))
                else:
                    self.answer(404, [("X-Why", "no such thing")], b"not here")

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        server = Server(("127.0.0.1", int(sys.argv[2])), Handler)
        open(place, "w").close()
        server.serve_forever()
        """#

    init() async throws {
        (process, port) = try await ServerProcess.atFreePort { port in
            let process = try await ServerProcess("python3") { place in
                let file = URL(fileURLWithPath: place + ".py")
                try Self.script.write(to: file, atomically: true, encoding: .utf8)
                return [file.path, place, "\(port)"]
            }
            return (process, port)
        }
    }

    /// `begun /path`, and `closed /path` when the client has closed its connection.
    var log: String { (try? String(contentsOfFile: process.socketPath + ".log", encoding: .utf8)) ?? "" }

    /// Stops the process, like a server that hangs: the kernel still accepts connections.
    func pause() { process.pause() }

    func resume() { process.resume() }

    func kill() async { await process.kill() }

    func stop() { process.stop() }
}
