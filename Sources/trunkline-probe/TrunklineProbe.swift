import TrunklineDiagnostics

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The probe: `swift run trunkline-probe tls://host:port`. `--help` lists its arguments.
@main
struct TrunklineProbe {
    static func main() async {
        signal(SIGPIPE, SIG_IGN)
        exit(await Probe.run())
    }
}
