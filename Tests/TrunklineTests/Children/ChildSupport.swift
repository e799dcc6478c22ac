import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A line for each request, and a line for each response: `/bin/cat` is a server.
let lineCodec = DelimitedCodec(delimiter: "\n", maximumFrameSize: 4 << 20)

/// A shell that runs `script` as the server.
func shell(_ script: String, environment: [String: String] = [:]) -> Endpoint {
    .command("/bin/sh", ["-c", script], environment: environment)
}

/// Whether the process exists and is not a zombie.
func isAlive(_ process: Int32) -> Bool {
    guard kill(process, 0) == 0 else { return false }
    return status(of: process)?.state != "Z"
}

/// Waits until the process has ended.
func expectEnd(of process: Int32, sourceLocation: SourceLocation = #_sourceLocation) async {
    #expect(await eventually { !isAlive(process) }, "\(process)", sourceLocation: sourceLocation)
}

/// The state and the parent of a process, from `/proc`; `nil` if it does not exist, or without `/proc`.
private func status(of process: Int32) -> (state: Character, parent: Int32)? {
    guard case .success(let bytes) = contents(ofProcFile: "/proc/\(process)/stat") else { return nil }
    let text = String(decoding: bytes, as: UTF8.self)
    guard let end = text.lastIndex(of: ")") else { return nil }
    let words = text[text.index(after: end)...].split(separator: " ")
    guard words.count > 1, let state = words[0].first, let parent = Int32(words[1]) else { return nil }
    return (state, parent)
}

/// The children of this process, zombies included.
func childrenOfThisProcess() -> [Int32] {
    names(in: "/proc").compactMap { Int32($0) }.filter { status(of: $0)?.parent == getpid() }
}

/// The arguments of a process; empty for a zombie, and if it does not exist.
func commandLine(of process: Int32) -> String {
    guard case .success(let bytes) = contents(ofProcFile: "/proc/\(process)/cmdline") else { return "" }
    return String(decoding: bytes, as: UTF8.self)
}

extension Client {
    /// The first report of the end of a link, or of a failed attempt.
    nonisolated func firstReport() -> Task<DisconnectReport?, Never> {
        let reports = disconnects
        return Task {
            for await report in reports { return report }
            return nil
        }
    }
}

extension Connection {
    /// The transport of the ready link, if that is one to a child process.
    var childTransport: PipeTransport? { driver.ready?.transport as? PipeTransport }

    /// How the child process of `transport`, on the loop of this connection, has ended.
    func exit(of transport: PipeTransport) -> ProcessExit? { transport.exit }
}
