import Trunkline
import TrunklineTesting

/// Passes the requests of memcached's protocol on to a server, after a time that a test can change.
final class SlowRelay: Sendable {
    /// What the time of a relay stands for.
    enum Kind {
        /// A long distance: every request is delayed, whatever else is in flight.
        case distance
        /// A slow server: it works on one request at a time, and the others wait for their turn.
        case work
    }

    private struct State {
        var time: Duration
        /// When the last request that has arrived is passed on.
        var last = ContinuousClock.now
    }

    private let listener: LoopbackServer
    private let client: Client
    private let state: Lock<State>

    private init(_ listener: LoopbackServer, _ client: Client, _ state: Lock<State>) {
        (self.listener, self.client, self.state) = (listener, client, state)
    }

    static func start(to server: Endpoint, _ kind: Kind, _ time: Duration = .zero) async throws -> SlowRelay {
        let client = Client(to: server, speaking: Memcached.layout)
        let state = Lock(State(time: time))
        let listener = try await LoopbackServer.start(speaking: Memcached.layout) { request in
            let due = state.withLock { state in
                let now = ContinuousClock.now
                state.last = (kind == .work ? max(now, state.last) : now) + state.time
                return state.last
            }
            return .perform { exchange in
                try await Task.sleep(until: due, clock: .continuous)
                var copy = Request(type: request.type, body: request.body)
                for field in ["keyLength", "extrasLength"] { copy[field] = request[field] }
                let reply: Response
                do throws(ClientError) {
                    reply = try await client.send(copy)
                } catch {
                    // Without a response, the connection is closed.
                    guard error.code == .rejected, let response = error.response else { throw error }
                    reply = response
                }
                try await exchange.reply(reply.frame)
            }
        }
        return SlowRelay(listener, client, state)
    }

    var endpoint: Endpoint { listener.endpoint }

    /// Changes the time of requests that arrive from now on.
    func set(_ time: Duration) { state.withLock { $0.time = time } }

    /// Stops listening and resets every connection, like a server that is killed.
    func kill() async { await listener.kill() }

    /// Listens again, after `kill`.
    func restart() async throws { try await listener.resumeAccepting() }

    func stop() async {
        await listener.stop()
        await client.closeNow()
    }
}
