// A host whose network fails, changes and improves, and a server that shuts down: no request fails, and most are not
// even delayed. The network is simulated, so nothing here takes real time.

import Trunkline
import TrunklineTesting

// A format in which the server can announce its shutdown.
let acme = FrameLayout {
    Field.type(UInt16.self)
    Field.serial(UInt32.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
}
.roles {
    $0.ping = 0
    $0.goAway = 3
    $0.serials = 50...
}

let network = SimulatedNetwork(seed: 7)

/// Twenty callers send fifty requests each. Returns the longest time that a request took.
@Sendable func slowestRequest(of client: Client) async throws -> Duration {
    try await withThrowingTaskGroup(of: Duration.self) { callers in
        for caller in 0..<20 {
            callers.addTask {
                var slowest = Duration.zero
                for number in 0..<50 {
                    let (body, start) = (Bytes("\(caller)/\(number)"), network.clock.now)
                    let reply = try await client.send(Request(type: 0x410, body: body))
                    guard reply.body == body else { fatalError("received the response of another request") }
                    slowest = max(slowest, start.duration(to: network.clock.now))
                }
                return slowest
            }
        }
        return try await callers.reduce(.zero) { max($0, $1) }
    }
}

try await network.run {
    let first = try await network.startServer(at: "10.0.0.7:7000", speaking: acme)
    let second = try await network.startServer(at: "10.0.0.8:7000", speaking: acme)
    let options = ClientOptions { options in
        // If a new link would use a better path, the client connects it first, and then the present one drains.
        options.network.onRouteChange = .move
        // How long requests wait for the network.
        options.requests.timeout = .seconds(3600)
    }
    let client = Client(to: ["10.0.0.7:7000", "10.0.0.8:7000"], speaking: acme, options: options, on: network.loops)
    let (paths, reports) = (client.diagnostics.paths, client.disconnects)
    async let watchingPaths: Void = {
        for await path in paths { print("   path: \(path)") }
    }()
    async let watchingReports: Void = {
        for await report in reports {
            // The report distinguishes the client's own network from the server, without a probe.
            let paths = report.isNetworkChange ? "; local network: \(report.pathBefore), now \(report.pathAfter)" : ""
            print("   report: \(report.cause) while \(report.phase)\(paths)")
        }
    }()

    print("connected: slowest request \(try await slowestRequest(of: client))")

    print("the interface is down for ten minutes:")
    network.setInterface("eth0", isUp: false)
    try await network.clock.sleep(for: .seconds(1))
    let waiting = client.start(Request(type: 0x410, body: "patient"))
    for await state in client.states.prefix(1) { print("   state: \(state)") }
    try await network.clock.sleep(for: .seconds(599))
    network.setInterface("eth0", isUp: true)
    let back = network.clock.now
    _ = try await waiting.value
    print("   answered \(back.duration(to: network.clock.now)) after the interface was up again")

    print("the address moves to another interface:")
    network.addInterface("eth1", address: "10.255.0.2", metric: 200)
    network.removeAddress("10.255.0.1", from: "eth0")
    network.addAddress("10.255.0.1", to: "eth1")
    print("   slowest request \(try await slowestRequest(of: client))")

    print("a tunnel offers a better path:")
    async let moved = slowestRequest(of: client)
    try await network.clock.sleep(for: .milliseconds(20))
    network.addInterface("tun0", address: "10.8.0.2", metric: 1, isTunnel: true)
    print("   slowest request \(try await moved)")

    print("the server announces its shutdown:")
    async let changed = slowestRequest(of: client)
    try await network.clock.sleep(for: .milliseconds(20))
    try await first.broadcast(Frame(.goAway, type: 3))
    print("   slowest request \(try await changed)")
    for await state in client.states.prefix(1) { print("   state: \(state)") }

    await client.close()
    _ = await (watchingPaths, watchingReports)
    await first.stop()
    await second.stop()
}
print("PathChange: done")
