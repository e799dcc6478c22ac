// swift-tools-version: 6.3
import PackageDescription

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .enableUpcomingFeature("InferIsolatedConformances"),
    .treatAllWarnings(as: .error),
    .strictMemorySafety(),
]

// What `import Trunkline` gives, for targets that import some of it by itself.
let trunkline: [Target.Dependency] = [
    "Trunkline", "TrunklineIO", "TrunklineCore", "TrunklineLayouts", "TrunklineLogging", "TrunklineCache",
    "TrunklineCluster",
]

let package = Package(
    name: "trunkline",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "Trunkline", targets: ["Trunkline"]),
        .library(name: "TrunklineCore", targets: ["TrunklineCore"]),
        .library(name: "TrunklineIO", targets: ["TrunklineIO"]),
        .library(name: "TrunklineLayouts", targets: ["TrunklineLayouts"]),
        .library(name: "TrunklineCluster", targets: ["TrunklineCluster"]),
        .library(name: "TrunklineCache", targets: ["TrunklineCache"]),
        .library(name: "TrunklineLogging", targets: ["TrunklineLogging"]),
        .library(name: "TrunklineHTTP", targets: ["TrunklineHTTP"]),
        .library(name: "TrunklineFoundation", targets: ["TrunklineFoundation"]),
        .library(name: "TrunklineDiagnostics", targets: ["TrunklineDiagnostics"]),
        .library(name: "TrunklineTelemetry", targets: ["TrunklineTelemetry"]),
        .library(name: "TrunklineLoopback", targets: ["TrunklineLoopback"]),
        .library(name: "TrunklineTesting", targets: ["TrunklineTesting"]),
        .library(name: "TrunklineGateway", targets: ["TrunklineGateway"]),
        .executable(name: "trunkline-probe", targets: ["trunkline-probe"]),
    ],
    traits: [
        .trait(
            name: "Portable",
            description: "Suspends tasks by means of the standard library alone: for compilers that were not tested"
        )
    ],
    targets: [
        // System calls that Swift's Glibc module does not export, and the function table of OpenSSL. Headers only.
        .target(name: "CTrunkline"),
        // What `import Trunkline` gives: the next six modules.
        .target(
            name: "Trunkline",
            dependencies: [
                "TrunklineIO", "TrunklineCore", "TrunklineLayouts", "TrunklineLogging", "TrunklineCache",
                "TrunklineCluster",
            ],
            swiftSettings: settings
        ),
        // What knows nothing of protocols: base values, suspended tasks, event loops, sockets, TLS, name resolution, network
        // paths, child processes.
        .target(name: "TrunklineIO", dependencies: ["CTrunkline"], swiftSettings: settings),
        // The client. `Core` contains the rules: value types with bytes and instants as inputs and actions as outputs, without
        // imports.
        .target(name: "TrunklineCore", dependencies: ["CTrunkline", "TrunklineIO"], swiftSettings: settings),
        // Codecs: declared layouts with their checksums, lines, payloads after a head or a length; and a dissector for Wireshark.
        .target(name: "TrunklineLayouts", dependencies: ["CTrunkline", "TrunklineCore"], swiftSettings: settings),
        // The log of a client, as an observer: it makes lines of events.
        .target(name: "TrunklineLogging", dependencies: ["TrunklineCore"], swiftSettings: settings),
        // Many servers of one service: discovery, balancing, ejection, calls that go to one of them.
        .target(
            name: "TrunklineCluster",
            dependencies: ["TrunklineCore", "TrunklineLogging"],
            swiftSettings: settings
        ),
        // Cached responses and coalesced requests, for every sender of requests.
        .target(name: "TrunklineCache", dependencies: ["TrunklineCore"], swiftSettings: settings),
        // HTTP/1.1: a codec and its requests. Without Foundation.
        .target(
            name: "TrunklineHTTP",
            dependencies: ["TrunklineCore"],
            swiftSettings: settings
        ),
        // The part that needs Foundation: JSON bodies, JSON-RPC, and HTTP over the link.
        .target(
            name: "TrunklineFoundation",
            dependencies: ["TrunklineCore", "TrunklineHTTP"],
            swiftSettings: settings
        ),
        // Exports metrics: the text format of Prometheus, and OTLP. Without Foundation.
        .target(
            name: "TrunklineTelemetry",
            dependencies: ["TrunklineCache", "TrunklineCluster", "TrunklineCore", "TrunklineHTTP"],
            swiftSettings: settings
        ),
        // The flight recorder, and what is made of its recordings: JSON lines, and captures for Wireshark. The probe.
        // Without Foundation.
        .target(
            name: "TrunklineDiagnostics",
            dependencies: ["TrunklineCluster", "TrunklineCore", "TrunklineLayouts"],
            swiftSettings: settings
        ),
        // For tests and examples: a real server on this machine, with scripted faults, and certificates. Without Foundation.
        .target(
            name: "TrunklineLoopback",
            dependencies: ["TrunklineCore", "TrunklineLayouts", "CTrunkline"],
            swiftSettings: settings
        ),
        // For tests: also a simulated network, replays of recordings, and a conformance test for codecs. Without Foundation.
        .target(
            name: "TrunklineTesting",
            dependencies: [
                "TrunklineCore", "TrunklineDiagnostics", "TrunklineLayouts", "TrunklineLogging", "TrunklineLoopback",
                "CTrunkline",
            ],
            swiftSettings: settings
        ),
        // The server side of HTTP over the link, in the test server.
        .target(
            name: "TrunklineGateway",
            dependencies: ["TrunklineCore", "TrunklineHTTP", "TrunklineFoundation", "TrunklineLoopback"],
            swiftSettings: settings
        ),
        // Reports what a server does.
        .executableTarget(name: "trunkline-probe", dependencies: ["TrunklineDiagnostics"], swiftSettings: settings),
        // The tour of the README. A target and no snippet: SwiftPM would build all libraries before a snippet.
        .executableTarget(
            name: "QuickStart",
            dependencies: ["Trunkline", "TrunklineLoopback"],
            swiftSettings: settings
        ),
        // Counts allocations by defining malloc. For the benchmark only.
        .target(name: "CTrunklineBench"),
        .executableTarget(
            name: "trunkline-bench",
            dependencies: trunkline + [
                "TrunklineDiagnostics", "TrunklineHTTP", "TrunklineFoundation", "TrunklineGateway", "TrunklineTesting",
                "CTrunklineBench",
            ],
            swiftSettings: settings
        ),
        // Layouts that several test targets use.
        .target(
            name: "SampleLayouts",
            dependencies: trunkline,
            path: "Tests/SampleLayouts",
            swiftSettings: settings
        ),
        // Limits how many tests run at a time. A dependency of every test target, because some build systems build a program
        // for each.
        .target(name: "CTestWidth", path: "Tests/CTestWidth"),
        .testTarget(
            name: "TrunklineCoreTests",
            dependencies: trunkline + ["TrunklineDiagnostics", "SampleLayouts", "CTestWidth"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "TrunklineTests",
            dependencies: trunkline + [
                "TrunklineDiagnostics", "TrunklineTesting", "CTrunkline", "SampleLayouts", "CTestWidth",
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "TrunklineHTTPTests",
            dependencies: trunkline + ["TrunklineHTTP", "TrunklineTesting", "CTestWidth"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "TrunklineTelemetryTests",
            dependencies: trunkline + ["TrunklineHTTP", "TrunklineTelemetry", "TrunklineTesting", "CTestWidth"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "TrunklineFoundationTests",
            dependencies: trunkline + [
                "TrunklineDiagnostics", "TrunklineHTTP", "TrunklineFoundation", "TrunklineTelemetry",
                "TrunklineGateway", "TrunklineTesting", "CTestWidth",
            ],
            swiftSettings: settings
        ),
        // A client for a test that stops its process.
        .executableTarget(
            name: "stopped-client",
            dependencies: trunkline,
            path: "Tests/StoppedClient",
            swiftSettings: settings
        ),
        // A service for the incidents of `.ci/incidents.py`.
        .executableTarget(
            name: "incident-service",
            dependencies: trunkline + ["TrunklineTelemetry"],
            path: "Tests/Incidents",
            swiftSettings: settings
        ),
        // Every option and argument of the public API with its extreme values.
        .testTarget(
            name: "TrunklineValueTests",
            dependencies: trunkline + [
                "TrunklineDiagnostics", "TrunklineHTTP", "TrunklineFoundation", "TrunklineTelemetry",
                "TrunklineGateway", "TrunklineTesting", "CTestWidth",
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "TrunklineInteropTests",
            dependencies: trunkline + [
                "TrunklineDiagnostics", "TrunklineHTTP", "TrunklineFoundation", "TrunklineTelemetry",
                "TrunklineGateway", "TrunklineTesting", "trunkline-probe", "stopped-client", "CTestWidth",
            ],
            swiftSettings: settings
        ),
    ]
)

// With TRUNKLINE_FUZZ, the fuzz target replaces all tests and executables. `.ci/fuzz` sets the variable, and uses a separate
// build directory.
if Context.environment["TRUNKLINE_FUZZ"] != nil {
    package.targets.removeAll { $0.type == .test || $0.type == .executable }
    package.products.removeAll { $0.name == "trunkline-probe" }
    package.targets.append(
        .executableTarget(
            name: "trunkline-fuzz",
            dependencies: trunkline + ["TrunklineDiagnostics", "TrunklineHTTP", "TrunklineTesting", "SampleLayouts"],
            path: "Tests",
            exclude: ["Fuzz/Corpus"],
            sources: [
                "Fuzz", "TrunklineInteropTests/Redis/RESPCodec.swift", "TrunklineInteropTests/MQTT/MQTTCodec.swift",
            ],
            swiftSettings: settings
        )
    )
}

// With TRUNKLINE_OMIT_TESTS, some tests are left out: one test target, or file in `Tests`, per line. The step `sanitizer` of
// `.ci/run` sets the variable.
if let omitted = Context.environment["TRUNKLINE_OMIT_TESTS"]?.split(separator: "\n").map(String.init) {
    package.targets.removeAll { omitted.contains($0.name) }
    for target in package.targets where target.type == .test {
        target.exclude += omitted.filter { $0.hasPrefix("\(target.name)/") }.map {
            String($0.dropFirst(target.name.count + 1))
        }
    }
}
