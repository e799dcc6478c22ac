@testable import TrunklineIO

#if canImport(Glibc)
    import Foundation
    import Testing

    @testable import TrunklineCore
    @testable import TrunklineIO

    /// A name server, dnsmasq, that only the code of a test asks: the configuration of the system stays as it is.
    ///
    /// The functions of glibc read the address of the name server from a state, which belongs to the caller
    /// (`res_nsearch`) or to the thread (`getaddrinfo`). A test changes it there.
    final class Dnsmasq: Sendable {
        nonisolated(unsafe) private let process: ServerProcess
        private let port: UInt16

        /// Starts dnsmasq with the records that `options` describe, and those of `addHosts`.
        static func start(_ options: [String]) async throws -> Dnsmasq {
            try await ServerProcess.atFreePort { port in
                // dnsmasq closes every descriptor that it inherits. Foundation takes that for its end, and waits for it in
                // the thread that notices the ends of all processes. So it is the child of a shell, and ends with it.
                let process = try await ServerProcess("sh", sign: "pid") { socketPath in
                    let hosts = "\(socketPath.dropLast())hosts"
                    try FileManager.default.createDirectory(atPath: hosts, withIntermediateDirectories: true)
                    return [
                        "-c", "setpriv --pdeathsig KILL dnsmasq \"$@\" & wait", "sh",
                        // A change of the user or group would undo `--pdeathsig`.
                        "--user=root", "--group=root",
                        "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
                        "--port=\(port)", "--listen-address=127.0.0.1", "--bind-interfaces", "--local=/test/",
                        "--pid-file=\(socketPath.dropLast())pid", "--hostsdir=\(hosts)",
                    ] + options
                }
                return Dnsmasq(process, port)
            }
        }

        private init(_ process: ServerProcess, _ port: UInt16) { unsafe (self.process, self.port) = (process, port) }

        func stop() { unsafe process.stop() }

        /// Adds addresses to a name while the server runs. The server notices a new file soon afterwards.
        func addHosts(_ addresses: [String], of name: String) throws {
            let file = unsafe process.directory.appendingPathComponent("hosts/\(UUID().uuidString)")
            let lines = addresses.map { "\($0) \(name)\n" }
            try Data(lines.joined().utf8).write(to: file)
        }

        /// Whether the server is installed, and the state of the resolver has a known format.
        static var isAvailable: Bool { MemoryLayout<Int>.size == 8 && ServerProcess.isAvailable("dnsmasq") }

        /// Asks for SRV records.
        func search(_ name: String) -> Result<[UInt8], TransportError> {
            unsafe systemSearchSRV(name) { unsafe configure($0) }
        }

        /// Event loops that ask this server for addresses.
        var loops: EventLoops {
            EventLoops(
                resolvingBy: Resolver(maximumThreads: 4, maximumQueued: 1024) { host, family in
                    self.configureThread()
                    return systemLookUp(host, family)
                }
            )
        }

        /// Makes the functions that have no state of the caller ask this server, on this thread.
        private func configureThread() {
            typealias GetState = @convention(c) () -> UnsafeMutableRawPointer?
            typealias Begin = @convention(c) (UnsafeMutableRawPointer) -> Int32
            guard let getState = unsafe dlsym(nil, "__res_state"), let begin = unsafe dlsym(nil, "__res_ninit"),
                let state = unsafe unsafeBitCast(getState, to: GetState.self)()
            else { return }
            unsafe _ = unsafeBitCast(begin, to: Begin.self)(state)
            unsafe configure(state)
        }

        /// Changes a `struct __res_state` (resolv.h) of a 64-bit system.
        ///
        /// | Offset | Size | Field |
        /// |---|---|---|
        /// | 0 | 4 | retrans |
        /// | 4 | 4 | retry |
        /// | 8 | 8 | options |
        /// | 16 | 4 | nscount |
        /// | 20 | 16 | nsaddr_list[0] |
        private func configure(_ state: UnsafeMutableRawPointer) {
            let noReload: UInt = 0x0200_0000
            unsafe state.storeBytes(
                of: state.load(fromByteOffset: 8, as: UInt.self) | noReload,
                toByteOffset: 8,
                as: UInt.self
            )
            unsafe state.storeBytes(of: 1, toByteOffset: 16, as: Int32.self)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
            address.sin_port = port.bigEndian
            unsafe state.storeBytes(of: address, toByteOffset: 20, as: sockaddr_in.self)
        }
    }
#endif
