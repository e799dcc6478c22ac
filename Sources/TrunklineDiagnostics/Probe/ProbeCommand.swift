public import TrunklineCore

extension Probe {
    /// Probes the server of a command line, prints the report, and returns the exit code: makes a tool like
    /// `trunkline-probe` for a protocol of your own.
    ///
    /// ```swift
    /// @main struct AcmeProbe {
    ///     static func main() async {
    ///         exit(await Probe.run(speaking: acme, options: options) { _ = try await $0.send(Request(type: 7)) })
    ///     }
    /// }
    /// ```
    ///
    /// It accepts the arguments of `trunkline-probe`, except `--preset` and `--layout`; `--help` lists them. Arguments
    /// about TLS replace those of `options`. See <doc:/Trunkline/Probing>.
    ///
    /// - Parameters:
    ///   - arguments: The command line, without the name of the program. Default: that of this process.
    ///   - codec: The wire format.
    ///   - options: The options of the client, with its handshake.
    ///   - ping: Sends a request that the server answers; `nil` for the ping of the codec.
    /// - Returns: ``ProbeReport/exitCode``, or 64 if the command line or a file that it names is not valid. Then the
    ///   reason was printed to standard error.
    public static func run(
        _ arguments: [String] = Array(CommandLine.arguments.dropFirst()),
        speaking codec: some FrameCodec,
        options: ClientOptions = ClientOptions(),
        ping: (@Sendable (Client) async throws -> Void)? = nil
    ) async -> Int32 {
        await run(arguments, options, fixed: ProbeProtocol(codec: codec, name: "\(type(of: codec))", ping: ping))
    }

    /// The tool `trunkline-probe`.
    package static func run(_ arguments: [String] = Array(CommandLine.arguments.dropFirst())) async -> Int32 {
        await run(arguments, ClientOptions(), fixed: nil)
    }

    private static let exitForUsage: Int32 = 64  // EX_USAGE of sysexits.h

    private static func run(_ words: [String], _ options: ClientOptions, fixed: ProbeProtocol?) async -> Int32 {
        do {
            guard let arguments = try ProbeArguments(words, options, fixed: fixed) else {
                print(ProbeArguments.usage(hasFixedProtocol: fixed != nil))
                return 0
            }
            let report = try await arguments.probe().run()
            print(arguments.isJSON ? report.json : report.text, terminator: arguments.isJSON ? "\n" : "")
            return report.exitCode
        } catch let error as ProbeUsageError {
            complain(error.message + "\nTry --help.")
            return exitForUsage
        } catch let error as TransportError {
            complain(error.message)
            return error.code == .tls(.configuration) ? exitForUsage : 1
        } catch {
            complain("\(error)")
            return 1
        }
    }

    static var programName: String {
        CommandLine.arguments.first?.split(separator: "/").last.map { String($0).escaped() } ?? "probe"
    }

    private static func complain(_ message: String) {
        // Not `FileHandle.write`, which traps if standard error is closed.
        writeToStandardError("\(programName): \(message)\n")
    }
}
