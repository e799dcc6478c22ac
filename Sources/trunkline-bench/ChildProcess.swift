#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A child process. As one, this program ends at the latest with its standard input, and so with its parent.
struct ChildProcess: ~Copyable {
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

    /// `program` is looked up in PATH; `nil` for this program.
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

    private static func makePipe() throws -> (reader: Int32, writer: Int32) {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { throw BenchError("pipe", errno: errno) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    func readLine() -> String {
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while unsafe read(output, &byte, 1) == 1 {
            if byte == UInt8(ascii: "\n") { break }
            line.append(byte)
        }
        return String(decoding: line, as: UTF8.self)
    }

    /// Returns the exit code, or a negative number after a signal.
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
