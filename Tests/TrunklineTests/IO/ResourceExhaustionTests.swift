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

/// A process without free file descriptors or threads: attempts fail with the cause, and succeed when these are
/// available again. Regression: the process trapped when the first client was created.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct ResourceExhaustionTests {}

extension ResourceExhaustionTests {
    /// In a separate process, which lowers its limit to the descriptors that are open already.
    @Test func withoutDescriptorsAttemptsFailAndThenSucceed() async {
        await aside {
            await #expect(processExitsWith: .success) {
                let server = try await LoopbackServer.start(speaking: .standard, on: EventLoops(count: 1))
                for mechanism in [EventLoops.Mechanism.epoll, .poll] {
                    let shortage = try Descriptors.exhaust()
                    let options = ClientOptions { $0.reconnecting.policy = nil }
                    let loops = EventLoops(count: 1, mechanism: mechanism)
                    let client = Client(to: server.endpoint, speaking: .standard, options: options, on: loops)
                    var failure: ClientError?
                    do throws(ClientError) { try await client.connect() } catch { failure = error }
                    shortage.end()
                    let error = try #require(failure)
                    #expect(error.code == .unavailable && error.fate == .notSent)
                    let cause = try #require(error.cause as? TransportError)
                    #expect(cause.errno == EMFILE && cause.description.contains("\(server.endpoint)"), "\(cause)")
                    #expect(cause.message.contains("file descriptors that this process may have are open"), "\(cause)")
                    // Jobs and timers ran meanwhile, and now descriptors are available.
                    let reply = try await client.send(Request(type: 0x410, body: "hello"))
                    #expect(reply.body == "hello")
                    await client.close()
                }
                await server.stop()
            }
        }
    }

    /// A look-up without a descriptor reads no file and asks no name server, and used to say that the name is not
    /// known.
    @Test func withoutDescriptorsALookUpNamesTheCause() async {
        await aside {
            await #expect(processExitsWith: .success) {
                guard case .success = systemLookUp("localhost", .ipv4) else { fatalError("localhost is not known") }
                let shortage = try Descriptors.exhaust()
                let limit = try #require(Descriptors.limit())
                let answer = systemLookUp("no-such-host.invalid", .ipv4)
                shortage.end()
                guard case .failure(let error) = answer else { fatalError("a host was found") }
                #expect(error.code == .nameResolutionFailed && error.errno == EMFILE)
                #expect(error.message.contains("all \(limit) file descriptors that this process may have"), "\(error)")
            }
        }
    }

    /// A search for SRV records without a descriptor used to say that no name server answered.
    @Test func withoutDescriptorsASearchNamesTheCause() async {
        await aside {
            await #expect(processExitsWith: .success) {
                let shortage = try Descriptors.exhaust()
                let answer = unsafe systemSearchSRV("_x._tcp.no-such-host.invalid")
                shortage.end()
                guard case .failure(let error) = answer else { fatalError("records were found") }
                #expect(error.code == .nameResolutionFailed && error.errno == EMFILE)
                #expect(error.message.contains("file descriptors that this process may have are open"), "\(error)")
            }
        }
    }

    /// The event loop runs on borrowed threads until it has its own thread.
    @Test func withoutAThreadRequestsAreStillAnswered() async throws {
        let system = System()
        let loops = EventLoops(startingThreadBy: { system.start($0, $1) })
        try await withLoopbackServer(speaking: .standard, handler: { $0.body == "lost" ? .noReply : .echo }) { server in
            // Each turn of the loop waits for a thread of the pool.
            let client = Client(to: server.endpoint, speaking: .standard, options: quickOptions(), on: loops)
            for number in 0..<20 { try await expectEcho(Bytes("\(number)"), by: client) }
            // Timers work, too.
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("lost"), timeout: .milliseconds(50))
            }
            #expect(error?.code == .timedOut)
            #expect(system.state.withLock { $0.refused > 0 && !$0.hasStarted })
            system.state.withLock { $0.hasThreads = true }
            while !system.state.withLock({ $0.hasStarted }) { await moment() }
            for number in 0..<20 { try await expectEcho(Bytes("\(number)"), by: client) }
            await client.close()
        }
    }

    /// Starts no threads until `hasThreads` is set.
    private final class System: Sendable {
        let state = Lock((hasThreads: false, refused: 0, hasStarted: false))

        func start(_ name: String, _ body: @escaping @Sendable () -> Void) -> Int32 {
            let hasThreads = state.withLock { state in
                if state.hasThreads { state.hasStarted = true } else { state.refused += 1 }
                return state.hasThreads
            }
            return hasThreads ? startThread(named: name, body) : EAGAIN
        }
    }
}
