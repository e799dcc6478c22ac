import Testing
import Trunkline
import TrunklineTesting

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A peer on a Unix domain socket that has shut down its reading side and keeps writing. Every write to it fails, and
/// there is always more to read.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct HalfClosedPeerTests {}

extension HalfClosedPeerTests {
    /// Regression: the answer to a ping found the link closed and read the rest of its data, which contained the next
    /// ping. Thousands of pings nested as many calls, until the stack overflowed.
    @Test func pingsDuringTheHandshakeDoNotNestCalls() async throws {
        let depth = StackDepth()
        let listener = try DeafPeer()
        let options = ClientOptions { options in
            options.reconnecting.policy = nil
            options.handshake.perform = { handshaker in
                while true { _ = try await handshaker.nextMessage() }
            }
        }
        let endpoint = Endpoint.unix(path: listener.path)
        let client = Client(
            to: endpoint,
            speaking: DepthCodec(depth: depth, peer: listener),
            options: options,
            on: EventLoops(count: 1)
        )
        let error = await failure { () throws(ClientError) in try await client.connect() }
        #expect(error?.fate == .notSent)
        #expect(depth.pings > 0)
        #expect(depth.bytes < 64 * 1024, "\(depth.bytes) bytes of stack for \(depth.pings) pings")
        await client.closeNow()
    }
}

/// Records how far apart on the stack pings are answered.
private final class StackDepth: Sendable {
    private let state = Lock((low: UInt.max, high: UInt.min, count: 0))

    func note() {
        let address = unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 1) {
            UInt(bitPattern: $0.baseAddress)
        }
        state.withLock { $0 = (min($0.low, address), max($0.high, address), $0.count + 1) }
    }

    var pings: Int { state.withLock { $0.count } }
    var bytes: UInt { state.withLock { $0.high - $0.low } }
}

/// The standard layout. When it answers a ping, it records where on the stack it is, and the peer sends the next ping.
private struct DepthCodec: FrameCodec, HeartbeatCodec, ServerSideCodec {
    var base: FrameLayout = .standard
    let depth: StackDepth
    let peer: DeafPeer

    var matching: ResponseMatching { base.matching }
    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        try base.decode(&input)
    }
    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        try base.encode(frame, into: &output)
    }
    func ping(number: UInt64) -> Frame? { nil }
    func pong(answering ping: Frame) -> Frame? {
        depth.note()
        peer.ping()
        return Frame(.pong, type: ping.type, body: ping.body)
    }
    func serverSide() -> any FrameCodec { base.serverSide() }
}

/// Accepts one connection, shuts down its reading side and writes a ping. It writes further pings on request.
private final class DeafPeer: Sendable {
    let path: String
    private let state = Lock((descriptor: Int32(-1), pings: 0))

    init() throws {
        let path = "/tmp/trunkline-deaf-\(getpid())-\(UInt32.random(in: .min ... .max))"
        self.path = path
        #if os(Linux)
            let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        #else
            let listener = socket(AF_UNIX, SOCK_STREAM, 0)
        #endif
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path.utf8) }
        let code = unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                let length = socklen_t(MemoryLayout<sockaddr_un>.size)
                return unsafe bind(listener, $0, length) == 0 && listen(listener, 1) == 0 ? 0 : errno
            }
        }
        guard code == 0 else { throw TransportError(.system, errno: code, "listening at \(path)") }
        let started = startThread(named: "deaf") {
            let peer = accept(listener, nil, nil)
            close(listener)
            shutdown(peer, Int32(SHUT_RD))
            self.state.withLock { $0.descriptor = peer }
            self.ping()
        }
        guard started == 0 else { throw TransportError(.system, errno: started, "starting a thread") }
    }

    deinit {
        state.withLock { _ = close($0.descriptor) }
        _ = unsafe unlink(path)
    }

    /// Writes a ping, at most a thousand in all.
    func ping() {
        let ping: [UInt8] = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]
        state.withLock { state in
            guard state.pings < 1000 else { return }
            state.pings += 1
            _ = unsafe send(state.descriptor, ping, ping.count, Int32(noSignal))
        }
    }
}

#if os(Linux)
    private let noSignal = MSG_NOSIGNAL
#else
    private let noSignal = Int32(0)
#endif
