import Foundation

/// A collector that reads reports with `opentelemetry-proto`, the definitions of OpenTelemetry, and Google's protobuf.
///
/// Step `packages` of `.ci/run` installs them from PyPI.
final class OTLPCollector {
    private let process: ServerProcess
    let port: UInt16

    static var isAvailable: Bool { ServerProcess.isAvailable("python3") && Tool.hasPythonModule("opentelemetry/proto") }

    /// The script refuses what it cannot parse, and writes a line for each value of a report to a file.
    private static let script = #"""
        import http.server, sys
        place, port, packages = sys.argv[1:]
        sys.path.insert(0, packages)
        from google.protobuf import json_format
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        def value_of(attribute): return getattr(attribute.value, attribute.value.WhichOneof("value"))

        def lines(report):
            for resource in report.resource_metrics:
                for attribute in resource.resource.attributes: yield "resource %s=%s" % (attribute.key, value_of(attribute))
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        kind = metric.WhichOneof("data")
                        data = getattr(metric, kind)
                        if kind != "gauge" and data.aggregation_temporality != 2: yield "not cumulative: " + metric.name
                        if kind == "sum" and not data.is_monotonic: yield "not monotonic: " + metric.name
                        for point in data.data_points:
                            if not 0 < point.start_time_unix_nano <= point.time_unix_nano: yield "wrong times: " + metric.name
                            attributes = ",".join("%s=%s" % (a.key, value_of(a)) for a in point.attributes)
                            if kind == "histogram":
                                if len(point.bucket_counts) != len(point.explicit_bounds) + 1: yield "wrong buckets"
                                value = "%d %r %s" % (point.count, point.sum, ",".join(map(str, point.bucket_counts)))
                            else:
                                value = repr(getattr(point, point.WhichOneof("value")))
                            yield "%s %s %s {%s} %s" % (metric.name, kind, metric.unit, attributes, value)

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments): pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = 200
                try:
                    report = json_format.Parse(body, ExportMetricsServiceRequest())
                    text = "\n".join(lines(report))
                except json_format.ParseError as error:
                    status, text = 400, str(error)
                if self.path != "/v1/metrics" or self.headers["Content-Type"] != "application/json": status = 404
                with open(place + ".log", "w") as log: log.write(text)
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

        server = Server(("127.0.0.1", int(port)), Handler)
        open(place, "w").close()
        server.serve_forever()
        """#

    init() async throws {
        (process, port) = try await ServerProcess.atFreePort { port in
            let process = try await ServerProcess("python3") { place in
                let file = URL(fileURLWithPath: place + ".py")
                try Self.script.write(to: file, atomically: true, encoding: .utf8)
                return [file.path, place, "\(port)", Tool.pythonModules]
            }
            return (process, port)
        }
    }

    /// The lines of the latest report.
    var report: [String] {
        let text = try? String(contentsOfFile: process.socketPath + ".log", encoding: .utf8)
        return text?.split(separator: "\n").map(String.init) ?? []
    }

    func stop() { process.stop() }
}
