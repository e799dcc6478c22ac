import TrunklineCore

/// The text format of Prometheus (version 0.0.4), for the page `/metrics` of a program.
///
/// ```swift
/// let page = PrometheusText.page(of: [ClientSnapshot(of: await client.metrics, named: "users")])
/// ```
///
/// Names follow the rules by which OpenTelemetry translates its names: dots become underscores, the unit is appended,
/// and counters end in `_total`.
public enum PrometheusText {
    /// The content type of the page.
    public static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// Returns a page with the metrics of clients and clusters.
    ///
    /// The label `trunkline_client_name` names the client or the cluster of each value. The names must differ. The time
    /// and the size of the page depend on the number of clients and servers, not on that of requests.
    public static func page(of snapshots: [any MetricsSnapshot]) -> String {
        let sources = snapshots.flatMap { $0.sources }
        var page = ""
        for metric in Metric.all {
            let reserved: Set<String> = metric.kind == .histogram ? ["le"] : []
            let points = sources.flatMap { metric.points(of: $0, labeledBy: Self.label, reserving: reserved) }
            guard !points.isEmpty else { continue }
            let name = name(of: metric)
            page += "# HELP \(name) \(escaped(metric.help, quotes: false)).\n"
            page += "# TYPE \(name) \(metric.kind.rawValue)\n"
            for point in points { append(point, of: name, to: &page) }
        }
        return page
    }

    static func name(of metric: Metric) -> String {
        let unit =
            switch metric.unit {
            case "s": "_seconds"
            case "By": "_bytes"
            default: ""
            }
        return label(metric.name) + unit + (metric.kind == .counter ? "_total" : "")
    }

    private static func append(_ point: Metric.Point, of name: String, to page: inout String) {
        let labels = point.attributes.map { "\(label($0.name))=\"\(escaped($0.text, quotes: true))\"" }
        func line(_ suffix: String, _ further: [String] = [], _ value: String) {
            let all = labels + further
            page += name + suffix + (all.isEmpty ? "" : "{\(all.joined(separator: ","))}") + " \(value)\n"
        }
        switch point.value {
        case .integer(let integer): line("", [], "\(integer)")
        case .number(let number): line("", [], text(number))
        case .durations(let histogram):
            for (bound, count) in zip(Metric.bounds, Metric.cumulativeCounts(of: histogram)) {
                line("_bucket", ["le=\"\(text(bound))\""], "\(count)")
            }
            line("_bucket", ["le=\"+Inf\""], "\(histogram.count)")
            line("_sum", [], text(histogram.sum.inSeconds))
            line("_count", [], "\(histogram.count)")
        }
    }

    private static func text(_ number: Double) -> String {
        number == number.rounded() && number.magnitude < 1e15 ? "\(Int64(number))" : "\(number)"
    }

    /// Labels that begin with two underscores are reserved (`__name__` is the name of the metric).
    private static func label(_ name: String) -> String {
        let scalars = name.unicodeScalars.map { scalar -> Unicode.Scalar in
            switch scalar {
            case "a"..."z", "A"..."Z", "0"..."9", "_": scalar
            default: "_"
            }
        }
        let label = String(String.UnicodeScalarView(scalars))
        let startsWell = label.unicodeScalars.first.map { !("0"..."9").contains($0) } ?? false
        if label.hasPrefix("__") { return "_" + label.drop { $0 == "_" } }
        return startsWell ? label : "_" + label
    }

    private static func escaped(_ text: String, quotes: Bool) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            case "\"" where quotes: escaped += "\\\""
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
