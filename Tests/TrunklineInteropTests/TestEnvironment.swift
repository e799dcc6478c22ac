import Foundation

/// The environment variables that change what these tests do. `.ci/README.md` describes all of the project's.
enum TestEnvironment {
    static let requiresServers = isSet("TRUNKLINE_REQUIRE_SERVERS")
    static let isAlone = isSet("TRUNKLINE_ALONE")

    private static func isSet(_ name: String) -> Bool { ProcessInfo.processInfo.environment[name] != nil }
}
