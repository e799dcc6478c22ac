import Testing
import Trunkline
import TrunklineTesting

/// Values that users create themselves, to fake a client.
struct FakeValueTests {
    @Test func aResponseAndAPushHaveTheGivenValues() {
        var response = Response(type: 7, status: 404, body: "none")
        response["cas"] = 9
        response.contentType = .json
        #expect(response.type == 7 && response.status == 404 && response.body == "none" && !response.isPart)
        #expect(response["cas"] == 9 && response.contentType == .json && response.serial == 0)
        #expect(response.malformedReason == nil)

        var push = PushMessage(type: 2, body: "news")
        push[bytes: "topic"] = "a"
        #expect(push.type == 2 && push.body == "news" && push[bytes: "topic"] == "a" && push.session == nil)
    }

    @Test func anErrorHasTheGivenValues() throws {
        let endpoint: Endpoint = "db:7000"
        let cause = FrameError(.malformed, "no good")
        let error = ClientError(
            .rejected,
            .answered,
            "the server\nrefused",
            endpoint: endpoint,
            attempts: [ClientError.Attempt(endpoint: endpoint, cause: cause)],
            response: Response(status: 3, body: "why"),
            cause: cause
        )
        #expect(error.code == .rejected && error.fate == .answered && error.endpoint == endpoint)
        #expect(error.response?.status == 3 && error.response?.body == "why")
        #expect(error.attempts.map(\.endpoint) == [endpoint])
        // The description is for logs: one line, without bytes of the body.
        #expect(!error.description.contains("\n") && !error.description.contains("why"))
    }
}
