import Foundation
import Testing

/// One run of the executable `trunkline-probe`.
struct ProbeRun: Sendable {
    let exitCode: Int32
    let output: String
    let complaint: String

    /// Runs the executable that was built with these tests, on a separate thread.
    init(_ arguments: [String]) async throws {
        self = try await elsewhere {
            let process = Process()
            // The program of the tests is in the same directory.
            let directory = try #require(Bundle.main.executableURL).deletingLastPathComponent()
            process.executableURL = directory.appendingPathComponent("trunkline-probe")
            process.arguments = arguments
            process.standardInput = FileHandle.nullDevice
            let (output, complaint) = (Pipe(), Pipe())
            process.standardOutput = output
            process.standardError = complaint
            try process.run()
            // One after the other: the probe writes at most a line to the second.
            let text = try output.fileHandleForReading.readToEnd() ?? Data()
            let problem = try complaint.fileHandleForReading.readToEnd() ?? Data()
            process.waitUntilExit()
            return ProbeRun(
                exitCode: process.terminationStatus,
                output: String(decoding: text, as: UTF8.self),
                complaint: String(decoding: problem, as: UTF8.self)
            )
        }
    }

    private init(exitCode: Int32, output: String, complaint: String) {
        (self.exitCode, self.output, self.complaint) = (exitCode, output, complaint)
    }

    /// The JSON document, as Foundation reads it.
    func document() throws -> Document {
        let parsed = try JSONSerialization.jsonObject(with: Data(output.utf8))
        return Document(parsed as? [String: Any] ?? [:])
    }

    /// A JSON object whose members are read by their names.
    struct Document {
        private let members: [String: Any]

        init(_ members: [String: Any]) { self.members = members }

        subscript(name: String) -> Document { Document(members[name] as? [String: Any] ?? [:]) }
        func text(_ name: String) -> String? { members[name] as? String }
        func number(_ name: String) -> Double? { (members[name] as? NSNumber)?.doubleValue }
        func texts(_ name: String) -> [String] { members[name] as? [String] ?? [] }
        func numbers(_ name: String) -> [Double] {
            (members[name] as? [NSNumber] ?? []).map(\.doubleValue)
        }
        func list(_ name: String) -> [Document] { (members[name] as? [[String: Any]] ?? []).map(Document.init) }

        /// The codes of the problems, in order.
        var problems: [String?] { list("problems").map { $0.text("code") } }
        /// The certificates that the first address presented.
        var certificates: [Document] { list("addresses").first?["session"].list("certificates") ?? [] }
    }
}

/// A socket at 127.0.0.1 whose connections nobody accepts: the kernel completes them, and nothing is sent.
final class SilentListener {
    let port: UInt16
    private let descriptor: Int32

    init() throws {
        let (port, descriptor) = (try freePort(), streamSocket(AF_INET))
        (self.port, self.descriptor) = (port, descriptor)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        address.sin_port = port.bigEndian
        let isListening = unsafe withUnsafePointer(to: &address) {
            unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
                    && listen(descriptor, 16) == 0
            }
        }
        guard isListening else { throw ServerProcess.NotStarted(description: "cannot listen at \(port)") }
    }

    deinit { close(descriptor) }
}
