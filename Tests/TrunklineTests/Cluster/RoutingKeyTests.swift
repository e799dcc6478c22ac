import Testing
import Trunkline

/// The keys of requests.
struct RoutingKeyTests {
    @Test func bytesOfTheSameLengthAreDifferentKeys() {
        #expect(RoutingKey(Bytes("a")) != RoutingKey(Bytes("b")))
        #expect(RoutingKey(Bytes("a")) == RoutingKey("a"))
        #expect(RoutingKey(bytes: "7".utf8) == RoutingKey(7))
    }
}
