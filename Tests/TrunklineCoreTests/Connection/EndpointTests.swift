import Testing

@testable import TrunklineCore

@Suite struct EndpointTests {
    @Test(arguments: [
        ("10.0.0.7:7000", Endpoint.host("10.0.0.7", port: 7000)), ("db.internal:1", .host("db.internal", port: 1)),
        ("[::1]:65535", .host("::1", port: 65535)), ("unix:/run/a:b.sock", .unix(path: "/run/a:b.sock")),
    ])
    func isReadAsItIsWritten(_ text: String, _ endpoint: Endpoint) {
        #expect((try? Endpoint(parsing: text)) == endpoint)
        #expect(endpoint.description == text)
    }

    @Test(arguments: [
        "", "host", "host:", ":80", "host:0", "host:65536", "::1:80", "host:-1", "unix:", "a\0b:1", " a:1",
    ])
    func nonsenseIsNone(_ text: String) {
        let error = #expect(throws: EndpointError.self) { try Endpoint(parsing: text) }
        #expect(error?.description.contains("is no endpoint") == true)
    }
}
