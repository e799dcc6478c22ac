import Testing

@testable import TrunklineCluster
@testable import TrunklineCore

/// The text of a file with servers.
@Suite struct EndpointListTests {}

extension EndpointListTests {
    private func servers(_ text: String) throws(EndpointListError) -> [ClusterEndpoint] {
        try EndpointList(parsing: Array(text.utf8)).servers
    }

    private func error(_ text: String) -> EndpointListError? {
        do throws(EndpointListError) {
            let servers = try servers(text)
            Issue.record("no error, but \(servers)")
            return nil
        } catch {
            return error
        }
    }

    @Test(
        arguments: [
            ("10.0.0.7:7000", ClusterEndpoint("10.0.0.7:7000")),
            ("[::1]:7000", ClusterEndpoint("[::1]:7000")),
            ("unix:/run/acme.sock", ClusterEndpoint("unix:/run/acme.sock")),
            ("unix:/run/a#b", ClusterEndpoint("unix:/run/a#b")),
            ("tls://a.example:7443", ClusterEndpoint("tls://a.example:7443")),
            (" \t a:1 \t weight=2.5  ", ClusterEndpoint("a:1", weight: 2.5)),
            ("a:1 weight=0", ClusterEndpoint("a:1", weight: 0)),
            ("a:1 zone=eu-1 # weight=2", ClusterEndpoint("a:1", zone: "eu-1")),
            ("a:1 name=tls.name", ClusterEndpoint("a:1", serverName: "tls.name")),
            (
                "a:1 version=5 note= formula=a=b",
                ClusterEndpoint("a:1", metadata: ["version": "5", "note": "", "formula": "a=b"])
            ),
            ("a:1 tag=x#y Weight=7", ClusterEndpoint("a:1", metadata: ["tag": "x#y", "Weight": "7"])),
            ("a:1 #", ClusterEndpoint("a:1")),
            ("a:1 stadt=Köln", ClusterEndpoint("a:1", metadata: ["stadt": "Köln"])),
        ] as [(String, ClusterEndpoint)]
    )
    func aLineIsAServer(line: String, server: ClusterEndpoint) throws {
        #expect(try servers(line) == [server])
        #expect(try servers(line + "\r\n") == [server])
    }

    @Test(arguments: ["", "\n", "\r\n", "   ", "\t", "#", "# a:1", "   # weight", "#a:1 weight=x"])
    func aLineMayHaveNoServer(line: String) throws {
        #expect(try servers(line).isEmpty)
        #expect(try servers("\(line)\na:1\n\(line)\n") == ["a:1"])
    }

    @Test(
        arguments: [
            ("a", "the port is missing"),
            ("a:70000", "the port is not a number"),
            ("user:secret@a:1", "a user name or password is not allowed"),
            ("::1:7000", "needs brackets"),
            ("1:2:3:4:5:6:7:8:7000", "needs brackets"),
            // It was taken for an IPv6 address.
            ("a:b:7000", "the host before the port contains a colon"),
            ("a:1 fast", "\"fast\" is not key=value"),
            ("a:1 =x", "\"=x\" is not key=value"),
            ("a:1 weight=x", "the weight \"x\" is not a number from 0 on"),
            ("a:1 weight=-1", "the weight \"-1\""),
            ("a:1 weight=+1", "the weight \"+1\""),
            ("a:1 weight=0x1p3", "the weight \"0x1p3\""),
            ("a:1 weight=nan", "the weight \"nan\""),
            ("a:1 weight=inf", "the weight \"inf\""),
            ("a:1 weight=", "the weight \"\""),
            ("a:1 weight=1000001", "the weight \"1000001\" is not 0 or from 0.000001 to 1000000"),
            ("a:1 weight=0.0000001", "the weight \"0.0000001\" is not 0 or from 0.000001 to 1000000"),
            ("a:1 weight=1 weight=2", "\"weight\" occurs twice"),
            ("a:1 k=1 k=1", "\"k\" occurs twice"),
            ("a:1 zone=", "the zone is empty"),
            ("a:1 name=", "the name is empty"),
            ("a:1 \u{1b}[31m", "\"\\u{1b}[31m\" is not key=value"),
        ]
    )
    func anInvalidLineIsNamed(line: String, reason: String) throws {
        let found = try #require(error("# list\n\nb:1\n\(line)\nc:1"))
        #expect(found.line == 4)
        #expect("\(found)".hasPrefix("line 4: ") && "\(found)".contains(reason), "\(found)")
        #expect(!"\(found)".contains("secret"))
    }

    @Test func aLineThatIsNotUTF8IsInvalid() {
        #expect(throws: EndpointListError(line: 2, reason: "the line is not valid UTF-8")) {
            try EndpointList(parsing: Array("a:1\nb:1 x=".utf8) + [0xff, 0x0a])
        }
    }

    @Test func theOrderIsThatOfTheLines() throws {
        #expect(try servers("c:1\na:1\nb:1\na:1") == ["c:1", "a:1", "b:1", "a:1"])
    }

    @Test(arguments: seeds(20))
    func randomBytesNeverTrap(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let parts = ["a:1", "[::1]:2", "weight=", "zone=", "=", "#", " ", "\t", "\r", "\n", "\r\n", "%", "1", "é"]
        for _ in 0..<500 {
            var bytes = (0..<Int.random(in: 0..<30, using: &random)).flatMap { _ in
                Array((parts.randomElement(using: &random) ?? "").utf8)
            }
            if !bytes.isEmpty, Bool.random(using: &random) {
                bytes[.random(in: bytes.indices, using: &random)] = .random(in: 0...255, using: &random)
            }
            _ = try? EndpointList(parsing: bytes)
        }
    }
}
