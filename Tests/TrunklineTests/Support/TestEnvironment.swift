import Foundation

/// The environment variables that configure these tests. `.ci/README.md` describes all variables of the project.
enum TestEnvironment {
    static let usesTLS = isSet("TRUNKLINE_TLS")
    static let isAlone = isSet("TRUNKLINE_ALONE")

    static let seeds: UInt64? = number("TRUNKLINE_SEEDS")
    static let seed: UInt64? = number("TRUNKLINE_SEED")

    static let stressRequests: Int? = number("TRUNKLINE_STRESS_REQUESTS")
    static let stressRestarts: Int? = number("TRUNKLINE_STRESS_RESTARTS")
    static let stressTLSCycles: Int? = number("TRUNKLINE_STRESS_TLS_CYCLES")

    private static func isSet(_ name: String) -> Bool { ProcessInfo.processInfo.environment[name] != nil }

    private static func number<Number: FixedWidthInteger>(_ name: String) -> Number? {
        ProcessInfo.processInfo.environment[name].flatMap { Number($0) }
    }
}
