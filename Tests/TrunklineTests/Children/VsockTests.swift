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

/// Links over vsock. The loopback needs the kernel module `vsock_loopback`; without it, only the errors are tested.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct VsockTests {}

extension VsockTests {
    #if os(Linux)
        @Test(arguments: Mechanism.allCases)
        func requestsOverTheLoopback(_ mechanism: Mechanism) async throws {
            let listener = socket(40, Int32(SOCK_STREAM.rawValue), 0)
            defer { if listener >= 0 { close(listener) } }
            let port = UInt32.random(in: 10_000...2_000_000_000)
            let isListening = unsafe withSockaddr(.vsock(cid: .max, port: port)) { pointer, length in
                unsafe bind(listener, pointer, length) == 0 && listen(listener, 4) == 0
            }
            guard isListening == true, hasLoopback(to: port) else {
                return print("skipped: this kernel has no vsock loopback (module vsock_loopback)")
            }
            let code = startThread(named: "vsock") {
                while true {
                    let peer = accept(listener, nil, nil)
                    guard peer >= 0 else { return }
                    var bytes = [UInt8](repeating: 0, count: 4096)
                    while true {
                        let count = unsafe read(peer, &bytes, bytes.count)
                        guard count > 0, unsafe write(peer, bytes, count) == count else { break }
                    }
                    close(peer)
                }
            }
            #expect(code == 0)
            let endpoint = Endpoint.vsock(cid: 1, port: port)
            try await withClient(to: endpoint, speaking: lineCodec, options: quickOptions(), on: mechanism.loops) {
                try await expectEcho("a", by: $0)
            }
        }

        /// Whether a connection to this machine succeeds at once.
        private func hasLoopback(to port: UInt32) -> Bool {
            let descriptor = socket(40, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
            defer { close(descriptor) }
            _ = unsafe withSockaddr(.vsock(cid: 1, port: port)) { unsafe connect(descriptor, $0, $1) }
            var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            return unsafe poll(&request, 1, 500) == 1 && pendingError(descriptor) == 0
        }
    #endif

    @Test func anAttemptFailsWithATypedError() async throws {
        let options = quickOptions {
            $0.reconnecting.maximumAttempts = 1
            $0.connecting.timeout = .milliseconds(300)
        }
        let client = Client(to: "vsock://4294967280:1", speaking: .standard, options: options)
        let error = await failure { () throws(ClientError) in try await client.connect() }
        #expect(error?.code == .unavailable && error?.cause is TransportError, "\(error as Any)")
        await client.close()
    }
}
