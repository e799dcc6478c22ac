import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// Endpoints that are no network addresses, as text.
@Suite struct OtherEndpointTests {}

extension OtherEndpointTests {
    @Test func vsockIsReadAndWritten() throws {
        for (text, endpoint) in [
            ("vsock://2:7000", Endpoint.vsock(cid: 2, port: 7000)),
            ("vsock://4294967295:4294967295", .vsock(cid: .max, port: .max)),
            ("tls://vsock://3:1", .vsock(cid: 3, port: 1).secured()),
        ] {
            let parsed = try Endpoint(parsing: text)
            #expect(parsed == endpoint && endpoint.description == text)
            #expect(parsed.host == nil && parsed.port == nil && parsed.path == nil)
        }
        for text in ["vsock://", "vsock://2", "vsock://2:", "vsock://a:1", "vsock://1:2:3", "vsock://4294967296:1"] {
            let error = #expect(throws: EndpointError.self) { try Endpoint(parsing: text) }
            #expect(error?.description.contains("vsock://cid:port") == true)
        }
        let error = #expect(throws: EndpointError.self) { try Endpoint(parsing: "udp://vsock://2:7000") }
        #expect(error?.description.contains("\"vsock://\" cannot follow \"udp://\"") == true)
    }

    @Test func aCommandShowsItsArgumentsAndNotItsEnvironment() {
        let endpoint = Endpoint.command("/usr/bin/tool", ["--stdio", "a b", ""], environment: ["TOKEN": "s3cret"])
        #expect(endpoint.description == #"command(/usr/bin/tool --stdio "a b" "")"#)
        #expect(!String(reflecting: endpoint).contains("s3cret"))
        var dumped = ""
        dump(endpoint, to: &dumped)
        #expect(!dumped.contains("s3cret"))
        let long = Endpoint.command("tool", ["a\nb", String(repeating: "x", count: 1000)])
        #expect(long.description.hasPrefix(#"command(tool a\nb xxx"#) && long.description.count < 300)
        #expect(endpoint != .command("/usr/bin/tool", ["--stdio", "a b", ""]))
        #expect(endpoint.host == nil && endpoint.port == nil && endpoint.path == nil)
    }

    @Test(
        arguments: [
            ("", [], [:], nil), ("a\0b", [], [:], nil), ("a", ["b\0"], [:], nil), ("a", [], ["A=": "b"], nil),
            ("a", [], ["": "b"], nil), ("a", [], ["A": "b\0"], nil), ("a", [], [:], ""),
        ] as [(String, [String], [String: String], String?)]
    )
    func mistakesInACommandAreKnown(_ case: (String, [String], [String: String], String?)) {
        let (executable, arguments, environment, directory) = `case`
        let command = ChildCommand(executable, arguments, environment: environment, workingDirectory: directory)
        #expect(command.mistake != nil)
        #expect(ChildCommand("a", ["b"], environment: ["A": "="], workingDirectory: "/").mistake == nil)
    }

    /// A recording, or a file of settings, may contain the description of one.
    @Test func commandsAndDescriptorsAreNotReadFromText() throws {
        for text in ["command(tool)", "command(tool a:80)", "descriptors(3)", "descriptors(3, 4)"] {
            let error = #expect(throws: EndpointError.self) { try Endpoint(parsing: text) }
            #expect(error?.description.contains("cannot be read from text") == true)
        }
        #expect(try Endpoint(parsing: "command:80") == .host("command", port: 80))
    }

    @Test func theAddressesHaveNoIPAddress() {
        for address in [SocketAddress.vsock(cid: 2, port: 80), .command(ChildCommand("tool"))] {
            #expect(address.family == nil && address.port == nil && address.ipBytes == nil && address.isLoopback)
            #expect(address.with(port: 7) == address && address.host == address.description)
        }
    }
}
