import Foundation
import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// A client whose process is stopped and continues, as with `docker pause`, a debugger or a frozen cgroup.
@Suite(.tags(.realThreads), .timeLimit(.minutes(2)))
struct StoppedClientTests {}

extension StoppedClientTests {
    /// 50 requests with a timeout of 10 s are answered after 3 s, while the process is stopped. Regression: each of them
    /// timed out, and was cancelled, and then its answer was read.
    @Test(arguments: ["epoll", "poll"])
    func answersThatArriveWhileTheProcessIsStoppedAreNoTimeouts(_ mechanism: String) async throws {
        let handler: LoopbackServer.Handler = { _ in .after(.seconds(3), .echo) }
        try await withLoopbackServer(speaking: .standard, handler: handler) { server in
            let process = Process()
            // The program of the tests is in the same directory.
            let directory = try #require(Bundle.main.executableURL).deletingLastPathComponent()
            process.executableURL = directory.appendingPathComponent("stopped-client")
            process.arguments = ["\(server.endpoint)", mechanism]
            process.standardInput = FileHandle.nullDevice
            let output = Pipe()
            process.standardOutput = output
            try process.run()
            let pid = process.processIdentifier
            defer { kill(pid, SIGKILL) }
            try await server.wait(within: .seconds(60)) { $0.requestCount == 50 }
            kill(pid, SIGSTOP)
            try await Task.sleep(for: .seconds(12))  // the deadlines must pass
            kill(pid, SIGCONT)
            let text = try await elsewhere { try output.fileHandleForReading.readToEnd() ?? Data() }
            #expect(String(decoding: text, as: UTF8.self) == "50 answered\n")
            #expect(await server.journal.cancelCount == 0)
        }
    }
}
