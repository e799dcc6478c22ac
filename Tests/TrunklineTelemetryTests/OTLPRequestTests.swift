import Foundation
import Testing
import Trunkline

@testable import TrunklineTelemetry

@Suite struct OTLPRequestTests {}

extension OTLPRequestTests {
    private func metrics(of snapshots: [any MetricsSnapshot]) throws -> [String: [String: Any]] {
        let json = OTLPRequest.json(of: snapshots, resource: ["service.name": "shop \"1\"\u{1}"], from: 1, at: 2)
        let request = try #require(JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any])
        let resources = try #require(request["resourceMetrics"] as? [[String: Any]])
        let resource = try #require(resources.first?["resource"] as? NSDictionary)
        #expect(
            resource == ["attributes": [["key": "service.name", "value": ["stringValue": "shop \"1\"\u{1}"]]]]
                as NSDictionary
        )
        let scopes = try #require(resources.first?["scopeMetrics"] as? [[String: Any]])
        let metrics = try #require(scopes.first?["metrics"] as? [[String: Any]])
        return Dictionary(uniqueKeysWithValues: metrics.map { ($0["name"] as? String ?? "", $0) })
    }

    @Test func countsAreCumulativeSumsOfStrings() throws {
        let metric = try #require(try metrics(of: [sampleSnapshot()])["trunkline.push.received"])
        let expected: NSDictionary = [
            "name": "trunkline.push.received", "description": "Pushes received", "unit": "{push}",
            "sum": [
                "aggregationTemporality": 2, "isMonotonic": true,
                "dataPoints": [
                    [
                        "attributes": [["key": "trunkline.client.name", "value": ["stringValue": "users"]]],
                        "startTimeUnixNano": "1", "timeUnixNano": "2", "asInt": "20",
                    ]
                ],
            ],
        ]
        #expect(metric as NSDictionary == expected)
    }

    @Test func aHistogramHasACountForEachBucket() throws {
        let metric = try #require(try metrics(of: [sampleSnapshot()])["rpc.client.call.duration"])
        let histogram = try #require(metric["histogram"] as? [String: Any])
        let points = try #require(histogram["dataPoints"] as? [[String: Any]])
        let point = try #require(points.first)
        #expect(points.count == 2 && histogram["aggregationTemporality"] as? Int == 2)
        #expect(point["count"] as? String == "4" && point["sum"] as? Double == 0.11)
        let counts = ["3", "0", "0", "0", "0", "1", "0", "0", "0", "0", "0", "0", "0", "0", "0"]
        #expect(point["bucketCounts"] as? [String] == counts)
        #expect(point["explicitBounds"] as? [Double] == Metric.bounds)
        // The calls that failed.
        let failed = try #require(points.last)
        #expect(failed["count"] as? String == "1" && failed["sum"] as? Double == 20)
        let attribute = try #require((failed["attributes"] as? [[String: Any]])?.last)
        let expected: NSDictionary = ["key": "error.type", "value": ["stringValue": "timedOut"]]
        #expect(attribute as NSDictionary == expected)
    }

    @Test func currentValuesAreGauges() throws {
        let metric = try #require(try metrics(of: [sampleSnapshot()])["trunkline.request.pending"])
        let gauge = try #require(metric["gauge"] as? [String: Any])
        #expect((gauge["dataPoints"] as? [[String: Any]])?.count == 4 && metric["sum"] == nil)
    }

    @Test func severalClientsShareAMetric() throws {
        let found = try metrics(of: [sampleSnapshot(), sampleSnapshot(named: "orders")])
        let sum = try #require(found["trunkline.push.received"]?["sum"] as? [String: Any])
        #expect((sum["dataPoints"] as? [[String: Any]])?.count == 2)
    }

    @Test func theServerOfAClusterIsAnAttribute() throws {
        let found = try metrics(of: [sampleSnapshot(), sampleCluster()])
        let sum = try #require(found["trunkline.request.accepted"]?["sum"] as? [String: Any])
        let points = try #require(sum["dataPoints"] as? [[String: Any]])
        #expect(points.map { $0["asInt"] as? String } == ["9", "11", "4"])
        let expected: NSArray = [
            ["key": "trunkline.client.name", "value": ["stringValue": "orders"]],
            ["key": "server.address", "value": ["stringValue": "b.example"]],
            ["key": "server.port", "value": ["intValue": "7000"]],
        ]
        #expect(points.last?["attributes"] as? NSArray == expected)
        let hedges = try #require(found["trunkline.cluster.request.hedges"]?["sum"] as? [String: Any])
        #expect((hedges["dataPoints"] as? [[String: Any]])?.first?["asInt"] as? String == "5")
        let latency = try #require(found["trunkline.cluster.server.latency_score"]?["gauge"] as? [String: Any])
        #expect((latency["dataPoints"] as? [[String: Any]])?.first?["asDouble"] as? Double == 0.03)
    }
}
