#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A child process that runs this program with other arguments, or another program. This program ends at the latest when
/// its standard input ends, which happens when its parent ends.
struct ChildProcess: ~Copyable {
    /// The path of this program's file.
    static var thisProgram: String {
        #if os(Linux)
            let bytes = unsafe realpath("/proc/self/exe", nil)
            defer { unsafe free(bytes) }
            return unsafe bytes.map { unsafe String(cString: $0) } ?? CommandLine.arguments[0]
        #else
            CommandLine.arguments[0]
        #endif
    }

    private let process: pid_t
    private let input: Int32
    private let output: Int32

    /// Starts `program`, which is looked up in PATH, or this program if it is `nil`.
    init(_ arguments: [String], program: String? = nil) throws {
        let (inputReader, inputWriter) = try Self.makePipe()
        let (outputReader, outputWriter) = try Self.makePipe()
        defer {
            close(inputReader)
            close(outputWriter)
        }
        #if os(Linux)
            var actions = unsafe posix_spawn_file_actions_t()
        #else
            var actions: posix_spawn_file_actions_t?
        #endif
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        unsafe posix_spawn_file_actions_adddup2(&actions, inputReader, STDIN_FILENO)
        unsafe posix_spawn_file_actions_adddup2(&actions, outputWriter, STDOUT_FILENO)

        var words = unsafe ([program ?? CommandLine.arguments[0]] + arguments).map { unsafe strdup($0) } + [nil]
        defer { unsafe words.forEach { unsafe free($0) } }
        var process: pid_t = 0
        let code = unsafe posix_spawnp(&process, program ?? Self.thisProgram, &actions, nil, &words, environ)
        guard code == 0 else {
            close(inputWriter)
            close(outputReader)
            throw BenchError("start of \(program ?? Self.thisProgram)", errno: code)
        }
        self.process = process
        input = inputWriter
        output = outputReader
    }

    /// Starts this program as a server, runs `body` with the first line that it prints, and ends the server.
    static func withServer<Result>(
        _ name: String,
        _ body: (String) async throws -> Result
    ) async throws -> Result {
        let server = try ChildProcess([name])
        do {
            let result = try await body(server.readLine())
            server.finish(killing: true)
            return result
        } catch {
            server.finish(killing: true)
            throw error
        }
    }

    /// Creates a pipe that no other child inherits.
    private static func makePipe() throws -> (reader: Int32, writer: Int32) {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { throw BenchError("pipe", errno: errno) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    /// Returns the next line of its output; empty if it has ended.
    func readLine() -> String {
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while unsafe read(output, &byte, 1) == 1 {
            if byte == UInt8(ascii: "\n") { break }
            line.append(byte)
        }
        return String(decoding: line, as: UTF8.self)
    }

    /// Waits for its end and returns its exit code, or a negative number after a signal. `killing` ends it first.
    @discardableResult
    consuming func finish(killing: Bool = false) -> Int32 {
        if killing { kill(process, SIGTERM) }
        close(input)
        close(output)
        var status: Int32 = 0
        while unsafe waitpid(process, &status, 0) < 0, errno == EINTR {}
        return status & 0x7f == 0 ? (status >> 8) & 0xff : -(status & 0x7f)
    }
}
