// An outage of one minute in virtual time: a client and its server in a simulated network.

import Trunkline
import TrunklineTesting

let network = SimulatedNetwork(seed: 7)

try await network.run {
    let server = try await network.startServer(at: "db:7000", speaking: .standard)
    let client = Client(to: "db:7000", speaking: .standard, on: network.loops)
    let reply = try await client.send(Request(type: 0x410, body: "before"))
    print("before: \(String(reply.body))")

    // The link is reset, and the server refuses connections for a minute. None of this takes real time.
    network.refuseConnections(to: "db")
    network.reset("db")
    let start = network.clock.now
    do {
        _ = try await client.send(Request(type: 0x410, body: "during"))
    } catch let error as ClientError {
        print("after \(start.duration(to: network.clock.now)): \(error.code), fate \(error.fate)")
    }
    try await network.clock.sleep(for: .seconds(52))
    network.acceptConnections(to: "db")

    // A request waits for the next attempt to connect, as long as its deadline allows.
    let patient = try await client.send(Request(type: 0x410, body: "after"), timeout: .seconds(60))
    print("after: \(String(patient.body))")

    await client.close()
    await server.stop()
}
print("Simulation: done")
