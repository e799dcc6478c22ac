import TrunklineCore

extension OutlierRules.Reason {
    var text: String {
        switch self {
        case .failuresInARow(let count): "\(Quantity.count(count, "failure")) in a row"
        case .successRate(let rate, let limit):
            "\(Self.percent(rate)) of its requests succeeded; the limit is \(Self.percent(limit))"
        case .errorRate(let rate, let median):
            "\(Self.percent(rate)) of its requests failed or had an error response; the median of the servers is "
                + Self.percent(median)
        case .latency(let mean, let median):
            "its mean latency is \(mean.text); the median of the servers is \(median.text)"
        case .probeFailed: "its probe failed"
        }
    }

    private static func percent(_ share: Double) -> String {
        let tenths = Int((share * 1000).rounded())
        return "\(tenths / 10).\(tenths % 10) %"
    }
}
