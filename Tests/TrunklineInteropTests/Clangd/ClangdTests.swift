import Foundation
import Testing
import Trunkline
import TrunklineFoundation

/// clangd, a language server. To execute a command, it calls the client (`workspace/applyEdit`), and its own response
/// says what the client has answered. clangd is a child process that speaks on its standard input and output. It counts its
/// requests from 0.
@Suite(.tags(.realThreads), .enabled(if: Clangd.isAvailable, "clangd is not installed"))
struct ClangdTests {}

extension ClangdTests {
    /// Starts a clangd of its own.
    private func withClangd(
        ids: JSONRPCCodec.IDs = .numbers,
        _ body: nonisolated(nonsending) (Client) async throws -> Void
    ) async throws {
        let clangd = Endpoint.command(try #require(Clangd.path), ["--log=error"])
        let options = ClientOptions { $0.requests.timeout = .seconds(60) }
        let codec = JSONRPCCodec(.contentLength, dialect: .languageServer, ids: ids)
        try await withClient(to: clangd, speaking: codec, options: options) { client in
            let answer = try await client.send(
                JSONRPCRequest("initialize", Clangd.Initialize(), replyingWith: Clangd.Server.self)
            )
            #expect(answer.serverInfo.name == "clangd")
            try await client.post(Request(JSONRPCNotification("initialized", [String: String]())))
            try await body(client)
            _ = try await client.send(JSONRPCRequest("shutdown", replyingWith: JSONRPCVoid.self))
        }
    }

    /// Runs `body` while the client answers calls of clangd: it applies no edit that contains the word "refuse".
    private func whileServing(
        _ client: Client,
        _ body: nonisolated(nonsending) () async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                try await JSONRPCCall.serve(client) { call in
                    guard call.method == "workspace/applyEdit" else { return nil }
                    let isRefused = call.params.firstIndex(of: "refuse") != nil
                    return Clangd.Applied(applied: !isRefused, failureReason: isRefused ? "not now" : nil)
                }
            }
            while await client.metrics.serving.maximumConcurrent == 0 { await Task.yield() }
            try await body()
            group.cancelAll()
            try await group.waitForAll()
        }
    }

    @Test(.timeLimit(.minutes(5)), arguments: [JSONRPCCodec.IDs.numbers, .strings])
    func aCommandEndsWithTheAnswerOfTheClient(_ ids: JSONRPCCodec.IDs) async throws {
        try await withClangd(ids: ids) { client in
            try await whileServing(client) {
                let answer = try await client.send(Clangd.applyFix("abc"))
                #expect(answer == "Fix applied.")
                do {
                    _ = try await client.send(Clangd.applyFix("refuse"))
                    Issue.record("the command was executed")
                } catch let error as ClientError {
                    #expect(error.code == .rejected)
                    #expect(JSONRPCError(error)?.message == "edits were not applied: not now")
                    #expect(error.reason?.text == "edits were not applied: not now")
                }
                // clangd forgets its oldest request if more than 100 are not answered.
                for batch in 0..<10 {
                    let results = await client.send(all: (0..<50).map { Clangd.applyFix("text \(batch) \($0)") })
                    #expect(results.allSatisfy { (try? $0.get()) == "Fix applied." })
                }
                let metrics = await client.metrics
                #expect(metrics.serving.answered == 502 && metrics.serving.dropped == 0)
                #expect(metrics.unknownResponses == 0 && metrics.unexpectedFrames == 0)
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
                #expect(error.code == .rejected && JSONRPCError(error)?.message == "Method not found")
            }
            #expect(await client.metrics.serving.refused == [.notServed: 1])
        }
    }

    /// clangd answers with its own codes, and names the method that it does not have.
    @Test(.timeLimit(.minutes(5)))
    func errorsHaveTheirNames() async throws {
        try await withClangd { client in
            do {
                _ = try await client.send(JSONRPCRequest("no/such/method", replyingWith: JSONRPCVoid.self))
                Issue.record("clangd has the method")
            } catch let error as ClientError {
                #expect(error.reason?.name == "MethodNotFound" && JSONRPCError(error)?.code == .methodNotFound)
            }
        }
    }

    /// clangd publishes the diagnostics of a file that was opened.
    @Test(.timeLimit(.minutes(5)))
    func notificationsHaveTheirMethodAsKey() async throws {
        try await withClangd { client in
            let diagnostics = client.pushes(forKey: "textDocument/publishDiagnostics").messages
            try await client.post(
                Request(JSONRPCNotification("textDocument/didOpen", Clangd.Opened(text: "int f() { return x; }")))
            )
            let message = try #require(await diagnostics.first { _ in true })
            let call = try #require(JSONRPCCall(message))
            let found = try call.params(as: Clangd.Diagnostics.self)
            #expect(found.uri == Clangd.file && found.diagnostics.map(\.code) == ["undeclared_var_use"])
        }
    }

    /// Of the requests that were cancelled, no response reaches another request.
    @Test(.timeLimit(.minutes(5)))
    func cancelledRequestsDoNotDisturbOthers() async throws {
        try await withClangd { client in
            try await client.post(
                Request(JSONRPCNotification("textDocument/didOpen", Clangd.Opened(text: "int answer = 42;")))
            )
            let symbols = JSONRPCRequest(
                "textDocument/documentSymbol",
                Clangd.Document(),
                replyingWith: [Clangd.Symbol].self
            )
            for _ in 0..<20 {
                let abandoned = try (0..<5).map { _ in try client.start(symbols) }
                for handle in abandoned { handle.cancel() }
                let found = try await client.send(symbols)
                #expect(found.map(\.name) == ["answer"])
            }
            let metrics = await client.metrics
            #expect(metrics.unknownResponses == 0 && metrics.unexpectedFrames == 0)
        }
    }
}

private enum Clangd {
    /// clangd of LLVM or of the Swift toolchain.
    static let path = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        .map { "\($0)/clangd" }
        .first { FileManager.default.isExecutableFile(atPath: $0) }

    static let isAvailable = path != nil || TestEnvironment.requiresServers

    static let file = "file:///a.cpp"

    struct Initialize: Encodable {
        struct Capabilities: Encodable { let workspace = ["applyEdit": true] }

        let processId: Int? = nil
        let rootUri: String? = nil
        let capabilities = Capabilities()
    }

    struct Server: Decodable {
        struct Info: Decodable { let name: String }

        let serverInfo: Info
    }

    struct Applied: Encodable {
        let applied: Bool
        let failureReason: String?
    }

    struct Document: Encodable {
        let textDocument = ["uri": file]
    }

    struct Opened: Encodable {
        struct Content: Encodable {
            let uri = file
            let languageId = "cpp"
            let version = 1
            let text: String
        }

        let textDocument: Content

        init(text: String) { textDocument = Content(text: text) }
    }

    struct Diagnostics: Decodable {
        struct Diagnostic: Decodable { let code: String }

        let uri: String
        let diagnostics: [Diagnostic]
    }

    struct Symbol: Decodable, Sendable { let name: String }

    struct Command: Encodable {
        let command = "clangd.applyFix"
        let arguments: [Changes]
    }

    struct Changes: Encodable { let changes: [String: [Edit]] }

    struct Edit: Encodable {
        let newText: String
        let range = ["start": ["line": 0, "character": 0], "end": ["line": 0, "character": 0]]
    }

    /// The command to replace the beginning of a file with `text`. clangd does not look at the file.
    static func applyFix(_ text: String) -> JSONRPCRequest<Command, String> {
        let changes = Changes(changes: [file: [Edit(newText: text)]])
        return JSONRPCRequest("workspace/executeCommand", Command(arguments: [changes]))
    }
}
