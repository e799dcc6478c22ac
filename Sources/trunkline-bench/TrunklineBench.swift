#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

@main
struct TrunklineBench {
    static func main() async {
        signal(SIGPIPE, SIG_IGN)
        do {
            switch try Arguments(CommandLine.arguments.dropFirst()).command {
            case .help: print(Arguments.usage)
            case .matrix(let isQuick):
                var matrix = Matrix(isQuick: isQuick)
                try matrix.run()
                print(try CodecBench(isQuick: isQuick).run())
                print()
                print(try PathsBench(isQuick: isQuick).run())
            case .report(let report, let isQuick):
                complain("measuring; the table follows in up to \(report.minutes(isQuick: isQuick)) min\n")
                print(try await report.run(isQuick: isQuick))
            case .path(let path, let repetitions): try path.run(repetitions)
            case .counts: print(try await Counts.measure().json)
            case .parserRuns: try ParserBench.runAll()
            case .parsers: print(try ParserBench(isQuick: true).run().json)
            case .drive(let run): print(try await run.measured().json(of: run))
            case .cell(let run): print(try await run.measured().line)
            case .serveSecured: try await TestServers.run()
            case .serveFloods: try await FloodServers.run()
            case .servePieces: try await PieceServer.run()
            case .serveGateway: try await TunnelBench.serve()
            case .serve:
                var server = try EchoServer()
                try server.run()
            case .serveSink:
                var server = try EchoServer(isSink: true)
                try server.run()
            }
        } catch let error as UsageError {
            complain("trunkline-bench: \(error.message)\nTry --help.\n")
            exit(2)
        } catch let error as BenchError {
            complain("trunkline-bench: \(error.message)\n")
            exit(1)
        } catch {
            complain("trunkline-bench: \(error)\n")
            exit(1)
        }
    }
}

struct BenchError: Error {
    let message: String

    init(_ message: String) { self.message = message }

    init(_ call: String, errno code: Int32) {
        let reason = unsafe strerror(code).map { unsafe String(cString: $0) } ?? "error \(code)"
        message = "\(call): \(reason)"
    }
}

func complain(_ text: String) {
    var text = text
    text.withUTF8 { bytes in
        _ = unsafe write(STDERR_FILENO, bytes.baseAddress, bytes.count)
    }
}
