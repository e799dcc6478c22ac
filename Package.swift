// swift-tools-version: 6.2
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

let package = Package(
    name: "trunkline",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "Trunkline", targets: ["Trunkline"]),
        .library(name: "TrunklineHTTP", targets: ["TrunklineHTTP"]),
        .library(name: "TrunklineFoundation", targets: ["TrunklineFoundation"]),
        .library(name: "TrunklineTesting", targets: ["TrunklineTesting"]),
        .library(name: "TrunklineGateway", targets: ["TrunklineGateway"]),
    ],
    targets: [
        // System calls that Swift's Glibc module does not export. Headers only.
        .target(name: "CTrunkline"),
        // The client. `Core` has the rules (pure value types, bytes and instants in, actions out; imports nothing), `IO` the
        // event loops, sockets and name resolution.
        .target(
            name: "Trunkline",
            dependencies: ["CTrunkline"],
            swiftSettings: settings
        ),
        // HTTP/1.1: a codec and its requests. No Foundation.
        .target(
            name: "TrunklineHTTP",
            dependencies: ["Trunkline"],
            swiftSettings: settings
        ),
        // What needs Foundation: JSON bodies, HTTP over the link.
        .target(
            name: "TrunklineFoundation",
            dependencies: ["Trunkline", "TrunklineHTTP"],
            swiftSettings: settings
        ),
        // A real server with scripted faults and a simulated network, for our tests and users'. No Foundation.
        .target(
            name: "TrunklineTesting",
            dependencies: ["Trunkline", "CTrunkline"],
            swiftSettings: settings
        ),
        // The server side of HTTP over the link, in the test server.
        .target(
            name: "TrunklineGateway",
            dependencies: ["Trunkline", "TrunklineHTTP", "TrunklineFoundation", "TrunklineTesting"],
            swiftSettings: settings
        ),
        // Counts allocations, by defining malloc: for the benchmark alone.
        .target(name: "CTrunklineBench"),
        .executableTarget(
            name: "trunkline-bench",
            dependencies: [
                "Trunkline", "TrunklineHTTP", "TrunklineFoundation", "TrunklineGateway", "TrunklineTesting",
                "CTrunklineBench",
            ],
            swiftSettings: settings
        ),
        // Layouts that more than one target tries.
        .target(
            name: "SampleLayouts",
            dependencies: ["Trunkline"],
            path: "Tests/SampleLayouts",
            swiftSettings: settings
        ),
        // How many tests run at a time. Each test target has it, as some build systems make a program of each.
        .target(name: "CTestWidth", path: "Tests/CTestWidth"),
        .testTarget(
            name: "TrunklineCoreTests",
            dependencies: ["Trunkline", "SampleLayouts", "CTestWidth"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "TrunklineTests",
            dependencies: [
                "Trunkline", "TrunklineTesting", "CTrunkline", "SampleLayouts",
                "CTestWidth",
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "TrunklineHTTPTests",
            dependencies: ["Trunkline", "TrunklineHTTP", "TrunklineTesting", "CTestWidth"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "TrunklineFoundationTests",
            dependencies: [
                "Trunkline", "TrunklineHTTP", "TrunklineFoundation", "TrunklineGateway", "TrunklineTesting",
                "CTestWidth",
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "TrunklineInteropTests",
            dependencies: [
                "Trunkline", "TrunklineHTTP", "TrunklineFoundation", "TrunklineGateway", "TrunklineTesting",
                "CTestWidth",
            ],
            swiftSettings: settings
        ),
    ]
)

// The fuzz target alone, in place of everything that is no library: `.ci/fuzz` sets this, and a build directory of its own.
if Context.environment["TRUNKLINE_FUZZ"] != nil {
    package.targets.removeAll { $0.type == .test || $0.type == .executable }
    package.targets.append(
        .executableTarget(
            name: "trunkline-fuzz",
            dependencies: ["Trunkline", "TrunklineHTTP", "TrunklineTesting", "SampleLayouts"],
            path: "Tests",
            exclude: ["Fuzz/Corpus"],
            sources: [
                "Fuzz", "TrunklineInteropTests/Redis/RESPCodec.swift", "TrunklineInteropTests/MQTT/MQTTCodec.swift",
            ],
            swiftSettings: settings
        )
    )
}
