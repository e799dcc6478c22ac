import Foundation

/// The environment variables that change what these tests do. `.ci/README.md` describes all variables of the project.
enum TestEnvironment {
    static let seeds: UInt64? = number("TRUNKLINE_SEEDS")
    static let stressClients: Int? = number("TRUNKLINE_STRESS_CLIENTS")

    private static func number<Number: FixedWidthInteger>(_ name: String) -> Number? {
        ProcessInfo.processInfo.environment[name].flatMap { Number($0) }
    }
}
