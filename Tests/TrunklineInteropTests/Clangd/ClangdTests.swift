import Foundation
import SampleLayouts
import Testing
import Trunkline

/// clangd, a language server. To execute a command, it calls the client (`workspace/applyEdit`), and its own response
/// says what the client has answered. clangd speaks on its standard input and output, so a program puts it behind a
/// socket. It counts its requests from 0.
@Suite(.tags(.realThreads), .enabled(if: Clangd.isAvailable, "clangd or Python is not installed"))
struct ClangdTests {
    /// Connects to a clangd of its own.
    private func withClangd(
        _ body: nonisolated(nonsending) (Client) async throws -> Void
    ) async throws {
        let clangd = try #require(Clangd.path)
        let server = try await ServerProcess("python3") { ["-c", Clangd.program, clangd, $0] }
        defer { server.stop() }
        let options = ClientOptions { $0.requests.timeout = .seconds(60) }
        let endpoint = Endpoint.unix(path: server.socketPath)
        try await withClient(to: endpoint, speaking: JSONRPCCodec(.contentLength), options: options) { client in
            let parameters: Bytes =
                "{\"processId\":null,\"rootUri\":null,\"capabilities\":{\"workspace\":{\"applyEdit\":true}}}"
            let answer = try await client.send(Clangd.call("initialize", parameters))
            #expect(answer.body.firstIndex(of: "\"capabilities\"") != nil)
            try await body(client)
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func aCommandEndsWithTheAnswerOfTheClient() async throws {
        try await withClangd { client in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    try await client.serve { request in
                        guard request[bytes: "method"] == "workspace/applyEdit" else { return nil }
                        return Frame(
                            .response,
                            body: request.body.firstIndex(of: "refuse") == nil
                                ? "{\"applied\":true}" : "{\"applied\":false,\"failureReason\":\"not now\"}"
                        )
                    }
                }
                while await client.metrics.serving.maximumConcurrent == 0 { await Task.yield() }
                let body = try await client.send(Clangd.applyFix("abc")).body
                #expect(body == "\"Fix applied.\"")
                do {
                    _ = try await client.send(Clangd.applyFix("refuse"))
                    Issue.record("the command was executed")
                } catch let error as ClientError {
                    #expect(error.code == .rejected)
                    #expect(error.response?.body == "edits were not applied: not now")
                }
                // clangd forgets its oldest request if more than 100 are not answered.
                for batch in 0..<10 {
                    let results = await client.send(all: (0..<50).map { Clangd.applyFix("text \(batch) \($0)") })
                    #expect(results.allSatisfy { (try? $0.get().body) == "\"Fix applied.\"" })
                }
                let metrics = await client.metrics
                #expect(metrics.serving.answered == 502 && metrics.serving.dropped == 0)
                #expect(metrics.unknownResponses == 0 && metrics.unexpectedFrames == 0)
                group.cancelAll()
                try await group.waitForAll()
            }
        }
    }

    /// Without an answer, the command would not end.
    @Test(.timeLimit(.minutes(5)))
    func aClientThatDoesNotServeRefusesTheCall() async throws {
        try await withClangd { client in
            do {
                _ = try await client.send(Clangd.applyFix("abc"))
                Issue.record("the command was executed")
            } catch let error as ClientError {
                #expect(error.code == .rejected && error.response?.body == "Method not found")
            }
            #expect(await client.metrics.serving.refused == [.notServed: 1])
        }
    }
}

private enum Clangd {
    /// clangd of LLVM or of the Swift toolchain.
    static let path = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        .map { "\($0)/clangd" }
        .first { FileManager.default.isExecutableFile(atPath: $0) }

    static let isAvailable = path != nil && ServerProcess.isAvailable("python3")

    /// Starts a clangd for each connection.
    static let program = """
        import socket, subprocess, sys
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(sys.argv[2])
        listener.listen()
        while True:
            link, _ = listener.accept()
            subprocess.Popen([sys.argv[1], "--log=error"], stdin=link, stdout=link, stderr=subprocess.DEVNULL)
            link.close()
        """

    static func call(_ method: Bytes, _ parameters: Bytes) -> Request {
        var request = Request(body: parameters)
        request[bytes: "method"] = method
        return request
    }

    /// The command to replace the beginning of a file with `text`. clangd does not look at the file.
    static func applyFix(_ text: String) -> Request {
        let position = "{\"line\":0,\"character\":0}"
        let edit = "{\"newText\":\"\(text)\",\"range\":{\"start\":\(position),\"end\":\(position)}}"
        let changes = "{\"changes\":{\"file:///a.cpp\":[\(edit)]}}"
        return call("workspace/executeCommand", Bytes("{\"command\":\"clangd.applyFix\",\"arguments\":[\(changes)]}"))
    }
}
