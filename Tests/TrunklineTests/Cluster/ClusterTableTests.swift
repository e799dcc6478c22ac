import Testing
import TrunklineTesting

@testable import Trunkline

@Suite(.simulated, .timeLimit(.seeded))
struct ClusterTableTests {
    @Test(arguments: [8, 40])
    func table(callers: Int) async throws {
        try await ClusterBed.run(servers: 10, listed: 9) { _ in } _: { bed, cluster, servers in
            bed.set(0) { _ in .after(.milliseconds(20), .echo) }
            bed.set(1, .rejects)
            try await bed.underLoad(of: cluster, callers: callers) {
                for second in 0..<90 {
                    switch second {
                    case 5: bed.set(2, .hangs)
                    case 15: bed.set(2, .fast)
                    case 8: await servers[3].kill()
                    case 9: try await servers[3].resumeAccepting()
                    case 12: await servers[4].kill()
                    case 13: try await servers[4].resumeAccepting()
                    case 20: bed.list(0..<10)
                    default: break
                    }
                    let counts = try await bed.received(in: .seconds(1))
                    let all = Double(counts.reduce(0, +))
                    let text = counts.map { count in
                        let share = Int((Double(count) * 1000 / all).rounded())
                        return "\(share / 10).\(share % 10)"
                    }.joined(separator: "\t")
                    print("TABLE\t\(callers)\t\(second)\t\(Int(all))\t\(text)")
                }
            }
            print("TABLE errors", bed.errors.count, bed.errors.filter { $0.code != .rejected }.count)
        }
    }

    @Test(arguments: [5, 20, 80])
    func errors(callers: Int) async throws {
        try await ClusterBed.run(servers: 5, answering: ClusterBed.Manner { _ in .after(.milliseconds(20), .echo) }) {
            $0.ejection = nil
        } _: { bed, cluster, _ in
            bed.set(0, .rejects)
            try await bed.underLoad(of: cluster, callers: callers) {
                for _ in 0..<5 {
                    let counts = try await bed.received(in: .seconds(2))
                    print("ERRORS", callers, counts)
                }
            }
        }
    }
}
