import Testing
import Trunkline
import TrunklineTesting

@Suite(.simulated, .timeLimit(.minutes(5)))
struct SubscriptionTests {
    /// A client that only listens never connected: nobody but requests and `connect()` had wanted a link.
    @Test func aSubscriberAloneConnects() throws {
        try simulate { service, client in
            let pushes = client.pushes().messages
            try await service.server.waitForConnections(1)
            try await service.server.push(Frame(.push, type: 0x2, body: "news"))
            for await message in pushes {
                #expect(message.body == "news")
                break
            }
        }
    }
}
