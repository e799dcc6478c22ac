import Trunkline

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The probe: `swift run trunkline-probe tls://host:port`. See `Arguments.usage`.
@main
struct TrunklineProbe {
    private static let exitForUsage: Int32 = 64  // EX_USAGE of sysexits.h

    static func main() async {
        signal(SIGPIPE, SIG_IGN)
        do {
            guard let arguments = try Arguments(CommandLine.arguments.dropFirst()) else {
                print(Arguments.usage)
                return
            }
            let report = try await Prober(arguments).run()
            print(arguments.isJSON ? try report.json : report.text, terminator: arguments.isJSON ? "\n" : "")
            exit(report.health.exitCode)
        } catch let error as UsageError {
            complain(error.message + "\nTry --help.")
            exit(exitForUsage)
        } catch let error as TransportError {
            complain(error.message)
            exit(error.code == .tls(.configuration) ? exitForUsage : ProbeReport.Health.unhealthy.exitCode)
        } catch {
            complain("\(error)")
            exit(ProbeReport.Health.unhealthy.exitCode)
        }
    }

    private static func complain(_ message: String) {
        // Not `FileHandle.write`, which traps if standard error is closed.
        writeToStandardError("trunkline-probe: \(message)\n")
    }
}
