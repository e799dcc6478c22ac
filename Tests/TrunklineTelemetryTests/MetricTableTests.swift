import Foundation
import Testing

@testable import TrunklineTelemetry

/// The names of the metrics, which must not change by mistake: in the code, and in the documentation.
@Suite struct MetricTableTests {}

extension MetricTableTests {
    /// The article *Exporting metrics*.
    static func article() throws -> String {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let article = root.appendingPathComponent(
            "Sources/TrunklineTelemetry/Documentation.docc/Articles/ExportingMetrics.md"
        )
        return try String(contentsOf: article, encoding: .utf8)
    }

    @Test func theDocumentationHasTheSameTable() throws {
        let rows = try Self.article().split(separator: "\n").map(String.init).filter {
            ($0.hasPrefix("| `rpc.") || $0.hasPrefix("| `trunkline.")) && $0.components(separatedBy: " | ").count == 5
        }
        let expected = Metric.all.map { metric in
            let attributes = metric.attributes.map { "`\($0)`" }.joined(separator: ", ")
            return "| `\(metric.name)` | \(metric.kind.rawValue) | `\(metric.unit)` | \(attributes) | \(metric.help) |"
        }
        #expect(rows == expected)
    }

    @Test func namesAreUniqueAndFollowTheConventions() {
        #expect(Set(Metric.all.map(\.name)).count == Metric.all.count)
        #expect(Set(Metric.all.map(PrometheusText.name)).count == Metric.all.count)
        for metric in Metric.all {
            #expect(metric.name.hasPrefix("trunkline.") || metric.name == "rpc.client.call.duration")
            #expect(metric.name.allSatisfy { $0.isLowercase || $0 == "." || $0 == "_" })
            #expect(!metric.help.hasSuffix("."))
        }
    }
}
