import Foundation
import Testing
import Trunkline

/// Programs that read a file and print what they found.
enum Tool {
    /// The directory of the Python modules that `.ci/run packages` installs: `.build/python` in the package.
    static let pythonModules = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent(".build/python").path

    /// Whether a Python module is installed. Prints a reason if it is not. As with `ServerProcess.isAvailable`, the
    /// tests of a missing module fail with `TRUNKLINE_REQUIRE_SERVERS`.
    static func hasPythonModule(_ name: String) -> Bool {
        let isThere = FileManager.default.fileExists(atPath: "\(pythonModules)/\(name)")
        if !isThere {
            print("Skipped: the Python module \(name) is not installed (bash .ci/run packages).")
        }
        return isThere || TestEnvironment.requiresServers
    }

    /// Runs a program in a directory of its own with these files, and returns the lines that it printed.
    static func run(
        _ path: String,
        _ arguments: [String],
        files: [String: [UInt8]],
        environment: [String: String] = [:],
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> [String] {
        let directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("trunkline-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        for (name, bytes) in files { try Data(bytes).write(to: directory.appendingPathComponent(name)) }
        let (output, errors) = (directory.appendingPathComponent("output"), directory.appendingPathComponent("errors"))
        for file in [output, errors] { _ = FileManager.default.createFile(atPath: file.path, contents: nil) }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = arguments
        process.currentDirectoryURL = directory
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = try FileHandle(forWritingTo: output)
        process.standardError = try FileHandle(forWritingTo: errors)
        // No configuration, plugins or history of the user who runs the tests.
        process.environment = ProcessInfo.processInfo.environment.merging(["HOME": directory.path]) { $1 }
            .merging(environment) { $1 }
        // Not `waitUntilExit`, which would block one of the few threads that all tests share.
        let status = try await withCheckedThrowingContinuation {
            (continuation: CheckedContinuation<Int32, any Error>) in
            process.terminationHandler = { continuation.resume(returning: $0.terminationStatus) }
            do {
                try process.run()
            } catch {
                process.terminationHandler = nil
                continuation.resume(throwing: error)
            }
        }
        let complaints = status == 0 ? "" : (try? String(contentsOf: errors, encoding: .utf8)) ?? ""
        #expect(status == 0, "\(complaints)", sourceLocation: sourceLocation)
        let text = try String(contentsOf: output, encoding: .utf8)
        return text.split(separator: "\n").map(String.init)
    }

    /// Runs tshark over a capture file, with the dissector of a layout, which is called acme.
    static func tshark(
        _ arguments: [String],
        _ capture: [UInt8],
        _ layout: FrameLayout,
        port: UInt16,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> [String] {
        try await run(
            try #require(ServerProcess.find("tshark")),
            ["-X", "lua_script:acme.lua", "-r", "capture"] + arguments,
            files: ["acme.lua": Array(layout.wiresharkDissector(name: "acme", port: port).utf8), "capture": capture],
            sourceLocation: sourceLocation
        )
    }

    /// Runs a Python program with the file "capture" as its argument.
    static func python(_ program: String, _ capture: [UInt8]) async throws -> [String] {
        try await run(
            "/usr/bin/env",
            ["python3", "program.py", "capture"],
            files: ["program.py": Array(program.utf8), "capture": capture],
            environment: ["PYTHONPATH": pythonModules, "PYTHONDONTWRITEBYTECODE": "1"]
        )
    }
}
