import TrunklineCore

/// An `ExportMetricsServiceRequest` of OTLP 1.x as JSON: 64-bit integers are strings, enumerations are numbers, names
/// are in lower camel case. Counts are cumulative.
enum OTLPRequest {
    /// `start` and `now` are in nanoseconds since 1970.
    static func json(
        of snapshots: [any MetricsSnapshot],
        resource: [String: String],
        from start: Int64,
        at now: Int64
    ) -> String {
        let resourceAttributes = resource.sorted { $0.key < $1.key }.map { Attribute($0.key, $0.value) }
        let times = [
            ("startTimeUnixNano", JSON.string("\(start)")), ("timeUnixNano", JSON.string("\(now)")),
        ]
        let sources = snapshots.flatMap { $0.sources }
        let metrics = Metric.all.compactMap { metric -> JSON? in
            let points = sources.flatMap { metric.points(of: $0) }
            return points.isEmpty ? nil : json(of: metric, points, times)
        }
        let scope = JSON.object([
            ("scope", .object([("name", .string("trunkline"))])), ("metrics", .array(metrics)),
        ])
        let request = JSON.object([
            (
                "resourceMetrics",
                .array([
                    .object([
                        ("resource", .object([("attributes", json(of: resourceAttributes))])),
                        ("scopeMetrics", .array([scope])),
                    ])
                ])
            )
        ])
        return request.text
    }

    private static func json(of metric: Metric, _ points: [Metric.Point], _ times: [(String, JSON)]) -> JSON {
        let points = ("dataPoints", JSON.array(points.map { json(of: $0, times) }))
        let cumulative = ("aggregationTemporality", JSON.number(2))
        let data: (String, JSON) =
            switch metric.kind {
            case .counter: ("sum", .object([cumulative, ("isMonotonic", .bool(true)), points]))
            case .gauge: ("gauge", .object([points]))
            case .histogram: ("histogram", .object([cumulative, points]))
            }
        return .object([
            ("name", .string(metric.name)), ("description", .string(metric.help)), ("unit", .string(metric.unit)), data,
        ])
    }

    private static func json(of point: Metric.Point, _ times: [(String, JSON)]) -> JSON {
        let value: [(String, JSON)]
        switch point.value {
        case .integer(let integer): value = [("asInt", .string("\(integer)"))]
        case .number(let number): value = [("asDouble", .number(number))]
        case .durations(let histogram):
            var below = 0
            var counts: [JSON] = []
            for count in Metric.cumulativeCounts(of: histogram) + [histogram.count] {
                counts.append(.string("\(count - below)"))
                below = count
            }
            value = [
                ("count", .string("\(histogram.count)")), ("sum", .number(histogram.sum.inSeconds)),
                ("bucketCounts", .array(counts)), ("explicitBounds", .array(Metric.bounds.map { .number($0) })),
            ]
        }
        return .object([("attributes", json(of: point.attributes))] + times + value)
    }

    private static func json(of attributes: [Attribute]) -> JSON {
        .array(
            attributes.map { attribute in
                let value: (String, JSON) =
                    switch attribute.value {
                    case .text(let text): ("stringValue", .string(text))
                    case .integer(let integer): ("intValue", .string("\(integer)"))
                    }
                return .object([("key", .string(attribute.name)), ("value", .object([value]))])
            }
        )
    }
}

/// The members of objects keep their order.
private indirect enum JSON {
    case object([(String, JSON)])
    case array([JSON])
    case string(String)
    /// Finite.
    case number(Double)
    case bool(Bool)

    var text: String {
        var text = ""
        write(to: &text)
        return text
    }

    private func write(to text: inout String) {
        switch self {
        case .object(let members):
            text += "{"
            for (index, member) in members.enumerated() {
                if index > 0 { text += "," }
                JSON.string(member.0).write(to: &text)
                text += ":"
                member.1.write(to: &text)
            }
            text += "}"
        case .array(let elements):
            text += "["
            for (index, element) in elements.enumerated() {
                if index > 0 { text += "," }
                element.write(to: &text)
            }
            text += "]"
        case .string(let string): text += JSONText.quoted(string)
        case .number(let number):
            let isWhole = number == number.rounded() && number.magnitude < 1e15
            text += isWhole ? "\(Int64(number))" : "\(number)"
        case .bool(let bool): text += bool ? "true" : "false"
        }
    }
}
