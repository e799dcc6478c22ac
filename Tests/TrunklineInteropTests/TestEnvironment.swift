import Foundation

/// The environment variables that change what these tests do. `.ci/README.md` describes all variables of the project.
enum TestEnvironment {
    static let requiresServers = isSet("TRUNKLINE_REQUIRE_SERVERS")
    static let isAlone = isSet("TRUNKLINE_ALONE")

    /// Returns `count`, or a tenth of it in a run with fewer requests than the default (`TRUNKLINE_STRESS_REQUESTS`).
    static func scaled(_ count: Int) -> Int {
        let requests = ProcessInfo.processInfo.environment["TRUNKLINE_STRESS_REQUESTS"].flatMap { Int($0) } ?? 100_000
        return requests < 100_000 ? count / 10 : count
    }

    private static func isSet(_ name: String) -> Bool { ProcessInfo.processInfo.environment[name] != nil }
}
