import CTrunkline
import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The TLS engine without a socket.
@Suite(.tags(.realThreads)) struct TLSEngineTests {}

extension TLSEngineTests {
    /// A client's engine and a server's engine, which the test connects.
    private final class Pair {
        let client, server: OpenSSLEngine

        init(minimumVersion: TLSVersion = .tls12, asksForCertificates: Bool = false) async throws {
            let authority = try TestAuthority()
            var settings = TLSSettings(.client(verifies: true))
            settings.trustsSystem = false
            settings.roots = [try authority.root.load()]
            settings.minimumVersion = minimumVersion
            if asksForCertificates {
                settings.identity = try await authority.identity(for: "client", usage: .client).load()
            }
            client = try OpenSSLEngine(OpenSSLContext(settings), name: "server", isServer: false)
            settings = TLSSettings(.server(verifiesClients: asksForCertificates))
            settings.trustsSystem = false
            settings.roots = [try authority.root.load()]
            settings.identity = try await authority.identity(for: "server").load()
            let context = try OpenSSLContext(settings)
            // SSL_CTRL_SET_MAX_SEND_FRAGMENT: a longer message, such as a session with the client's certificate,
            // takes two records.
            if asksForCertificates {
                _ = unsafe context.library.api.pointee.SSL_CTX_ctrl(context.pointer, 52, 512, nil)
            }
            server = try OpenSSLEngine(context, name: "", isServer: true)
        }

        /// Lets both sides take turns. Returns whether each of them has completed the handshake.
        func shakeHands() throws -> (client: Bool, server: Bool) {
            var (clientIsDone, serverIsDone) = (false, false)
            for _ in 0..<8 {
                if !clientIsDone { clientIsDone = try Self.handshake(client, with: server.outgoing.takeAll()) }
                if !serverIsDone { serverIsDone = try Self.handshake(server, with: client.outgoing.takeAll()) }
            }
            return (clientIsDone, serverIsDone)
        }

        static func handshake(_ engine: OpenSSLEngine, with input: [UInt8]) throws(TransportError) -> Bool {
            try unsafe input.span.bytes.withUnsafeBytes { memory throws(TransportError) in
                var input = unsafe memory
                return try unsafe engine.handshake(&input)
            }
        }

        /// Returns whether the engine was able to write.
        @discardableResult
        static func write(_ bytes: [UInt8], to engine: OpenSSLEngine) throws(TransportError) -> Bool {
            try unsafe bytes.span.bytes.withUnsafeBytes { memory throws(TransportError) in
                try unsafe engine.write(memory)
            }
        }

        /// The bytes that `engine` decrypts from `input`, and how reading ended.
        static func read(_ input: [UInt8], by engine: OpenSSLEngine) -> (bytes: [UInt8], end: TLSReadOutcome) {
            var memory = [UInt8](repeating: 0, count: 1000)
            var bytes: [UInt8] = []
            return unsafe input.withUnsafeBytes { all in
                var input = unsafe all
                while true {
                    let outcome = unsafe memory.withUnsafeMutableBytes { unsafe engine.read(&input, into: $0) }
                    guard case .bytes(let count) = outcome else { return (bytes, outcome) }
                    bytes += memory[..<count]
                }
            }
        }
    }

    /// Regression: the error said only "alert handshake failure".
    @Test("an error names the renegotiation that was refused before it")
    func renegotiation() async throws {
        let pair = try await Pair()
        let server = pair.server
        let library = unsafe dlopen(OpenSSL.names[0].ssl, RTLD_NOW)
        typealias Function = @convention(c) (OpaquePointer?) -> Int32
        typealias Clear = @convention(c) (OpaquePointer?, UInt64) -> UInt64
        guard let begin = unsafe dlsym(library, "SSL_renegotiate"),
            let clear = unsafe dlsym(library, "SSL_clear_options")
        else { return print("renegotiation is skipped: OpenSSL 3 is not installed") }
        // SSL_CTRL_SET_MAX_PROTO_VERSION: TLS 1.2. SSL_OP_NO_RENEGOTIATION would refuse to begin one.
        _ = unsafe server.api.pointee.SSL_ctrl(server.ssl, 124, 0x0303, nil)
        _ = unsafe unsafeBitCast(clear, to: Clear.self)(server.ssl, 1 << 30)
        #expect(try pair.shakeHands() == (true, true))
        #expect(pair.client.session?.version == "TLSv1.2")
        #expect(unsafe unsafeBitCast(begin, to: Function.self)(server.ssl) == 1)
        _ = unsafe server.api.pointee.SSL_do_handshake(server.ssl)
        #expect(Pair.read(server.outgoing.takeAll(), by: pair.client).bytes.isEmpty)
        #expect(pair.client.hasRefusedRenegotiation)
        _ = Pair.read(pair.client.outgoing.takeAll(), by: server)
        guard case .failed(let error) = Pair.read(server.outgoing.takeAll(), by: pair.client).end else {
            Issue.record("the link goes on")
            return
        }
        #expect(error.message.contains("; before that, the server began a renegotiation (TLS 1.2)"), "\(error)")
    }

    /// Regression: OpenSSL ignored a certificate after a byte-order mark that is not in the first line: "the PEM contains
    /// no certificate", or a chain without its second certificate.
    @Test("a PEM with byte-order marks is read, and one in UTF-16 is named")
    func byteOrderMarks() async throws {
        let mark: [UInt8] = Array("# a comment\n".utf8) + [0xEF, 0xBB, 0xBF]
        let authority = try TestAuthority()
        let root = try authority.root.load()
        let marked = Bytes(mark + Array(root) + mark + Array(root))
        var settings = TLSSettings(.client(verifies: true))
        settings.trustsSystem = false
        settings.roots = [marked]
        let identity = try await authority.identity(for: "server").load()
        settings.identity = TLSSettings.Identity(
            certificates: Bytes(mark + Array(identity.certificates)),
            key: Bytes(mark + Array(identity.key)),
            passphrase: nil
        )
        _ = try OpenSSLContext(settings)
        let wide = Bytes([0xFF, 0xFE] + Array(root).flatMap { [$0, 0] })
        settings.roots = [wide]
        let error = #expect(throws: TransportError.self) { try OpenSSLContext(settings) }
        #expect(error?.message == "the roots cannot be used: the PEM is in UTF-16: save it as UTF-8")
        settings.roots = []
        settings.identity = TLSSettings.Identity(certificates: identity.certificates, key: wide)
        let keyError = #expect(throws: TransportError.self) { try OpenSSLContext(settings) }
        #expect(keyError?.message.hasSuffix("; the PEM is in UTF-16: save it as UTF-8") == true)
    }

    /// Regression: an address with a zone was sent as the name of a host, and compared with the names of a certificate.
    @Test(
        "no name is sent for an address, with or without a zone",
        arguments: ["fe80::1%lo", "fe80::1%nowhere9", "127.1"]
    )
    func addresses(name: String) throws {
        let context = try OpenSSLContext(TLSSettings(.client(verifies: false)))
        let engine = try OpenSSLEngine(context, name: name, isServer: false)
        _ = try Pair.handshake(engine, with: [])
        let hello = engine.outgoing.takeAll()
        let named = try OpenSSLEngine(context, name: "db.example", isServer: false)
        _ = try Pair.handshake(named, with: [])
        #expect(named.outgoing.takeAll().contains(Array("db.example".utf8)))
        #expect(!hello.isEmpty && !hello.contains(Array(name.utf8)) && !hello.contains(Array("fe80".utf8)))
    }

    @Test("bytes arrive as they were written, however they are split", arguments: [1, 5, 17, 16_000, 70_000])
    func cut(size: Int) async throws {
        let pair = try await Pair()
        #expect(try pair.shakeHands() == (true, true))
        let sent = (0..<60_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        try Pair.write(sent, to: pair.client)
        var rest = pair.client.outgoing.takeAll()[...]
        var received: [UInt8] = []
        while !rest.isEmpty {
            received += Pair.read(Array(rest.prefix(size)), by: pair.server).bytes
            rest = rest.dropFirst(size)
        }
        #expect(received == sent)
    }

    /// OpenSSL before 3.0.14 lost the header of a record if its buffers were freed between the header and the rest. Only
    /// a client frees them.
    @Test("memory can be released at any time", arguments: [1, 5, 17, 16_000])
    func release(size: Int) async throws {
        let pair = try await Pair()
        #expect(try pair.shakeHands() == (true, true))
        let sent = (0..<40_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        try Pair.write(sent, to: pair.server)
        var rest = pair.server.outgoing.takeAll()[...]
        var received: [UInt8] = []
        var memory = [UInt8](repeating: 0, count: 7000)
        while !rest.isEmpty {
            try unsafe Array(rest.prefix(size)).withUnsafeBytes { all in
                var input = unsafe all
                while case .bytes(let count) = unsafe memory.withUnsafeMutableBytes({
                    unsafe pair.client.read(&input, into: $0)
                }) {
                    received += memory[..<count]
                    // With a part of the record unread, and bytes going the other way.
                    pair.client.releaseMemory()
                    try Pair.write([1], to: pair.client)
                    pair.client.releaseMemory()
                }
                pair.client.releaseMemory()
            }
            rest = rest.dropFirst(size)
        }
        #expect(received == sent)
        let answers = Pair.read(pair.client.outgoing.takeAll(), by: pair.server).bytes
        #expect(!answers.isEmpty && answers.allSatisfy { $0 == 1 })
    }

    @Test("the boundaries of records are found, however the bytes are split")
    func boundaries() {
        let lengths = [0, 1, 5, 255, 256, 16_640]
        var bytes: [UInt8] = []
        var starts: Set<Int> = [0]
        for length in lengths {
            bytes += [23, 3, 3, UInt8(length >> 8), UInt8(length & 0xFF)] + [UInt8](repeating: 7, count: length)
            starts.insert(bytes.count)
        }
        for size in [1, 2, 3, 5, 7, 100, 20_000] {
            var position = RecordPosition()
            for start in stride(from: 0, to: bytes.count, by: size) {
                let end = min(start + size, bytes.count)
                unsafe bytes.withUnsafeBytes { unsafe position.advance(over: $0[start..<end]) }
                #expect(position.isAtStart == starts.contains(end))
            }
        }
    }

    @Test("the peer may request new keys at any time")
    func keyUpdate() async throws {
        let pair = try await Pair(minimumVersion: .tls13)
        #expect(try pair.shakeHands() == (true, true))
        for round in 0..<5 {
            pair.server.updateKeys()
            try Pair.write([UInt8(round)], to: pair.server)
            #expect(Pair.read(pair.server.outgoing.takeAll(), by: pair.client).bytes == [UInt8(round)])
            try Pair.write([UInt8(100 + round)], to: pair.client)
            #expect(Pair.read(pair.client.outgoing.takeAll(), by: pair.server).bytes == [UInt8(100 + round)])
        }
    }

    /// A client that has completed the handshake with a certificate. `said` is what the server sends first after it has
    /// received the certificate.
    private func beforeTheVerdict() async throws -> (pair: Pair, said: [UInt8]) {
        let pair = try await Pair(minimumVersion: .tls13, asksForCertificates: true)
        for _ in 0..<8 where pair.client.session == nil || pair.server.session == nil {
            _ = try Pair.handshake(pair.client, with: pair.server.outgoing.takeAll())
            if pair.server.session == nil { _ = try Pair.handshake(pair.server, with: pair.client.outgoing.takeAll()) }
        }
        #expect(pair.client.session != nil && pair.server.session != nil && pair.client.awaitsVerdict)
        return (pair, pair.server.outgoing.takeAll())
    }

    @Test("a part of the server's first message is not a verdict on the client")
    func half() async throws {
        let (pair, said) = try await beforeTheVerdict()
        #expect(try Pair.handshake(pair.client, with: Array(said.prefix(10))))
        #expect(pair.client.awaitsVerdict)
        #expect(try Pair.handshake(pair.client, with: Array(said.dropFirst(10))))
        #expect(!pair.client.awaitsVerdict)
    }

    /// Regression: the check for the verdict removed the end from the input, and the end was not reported.
    @Test("the end is reported if a server accepts the client and closes")
    func close() async throws {
        let (pair, said) = try await beforeTheVerdict()
        pair.server.finishWriting()
        #expect(try Pair.handshake(pair.client, with: said + pair.server.outgoing.takeAll()))
        #expect(!pair.client.awaitsVerdict && pair.client.hasMore)
        guard case .end = Pair.read([], by: pair.client).end else { Issue.record("the end was lost"); return }
    }

    /// Regression: encrypting failed, and with it the link, while a session from the server had arrived only in part.
    @Test("writing waits for the rest of a message of TLS itself")
    func waits() async throws {
        let (pair, said) = try await beforeTheVerdict()
        // The first record is complete, but does not contain the whole message.
        let first = 5 + Int(said[3]) << 8 + Int(said[4])
        #expect(first < said.count)
        #expect(try Pair.handshake(pair.client, with: Array(said.prefix(first))))
        #expect(!pair.client.awaitsVerdict)
        #expect(try !Pair.write([1, 2, 3], to: pair.client))
        #expect(pair.client.outgoing.isEmpty)
        #expect(Pair.read(Array(said.dropFirst(first)), by: pair.client).bytes.isEmpty)
        #expect(try Pair.write([4, 5], to: pair.client))
        #expect(Pair.read(pair.client.outgoing.takeAll(), by: pair.server).bytes == [4, 5])
    }

    @Test("every corrupted byte is detected")
    func corrupted() async throws {
        for position in stride(from: 0, through: 40, by: 5) {
            let pair = try await Pair()
            #expect(try pair.shakeHands() == (true, true))
            _ = Pair.read(pair.server.outgoing.takeAll(), by: pair.client)
            try Pair.write(Array("a secret of some length".utf8), to: pair.client)
            var bytes = pair.client.outgoing.takeAll()
            bytes[position] ^= 0x40
            let (received, end) = Pair.read(bytes, by: pair.server)
            #expect(received.isEmpty)
            // If the length is larger now, the engine waits for the rest.
            switch end {
            case .failed(let error): if case .tls = error.code {} else { Issue.record("\(error)") }
            case .needsInput: #expect(3...4 ~= position)
            default: Issue.record("\(end)")
            }
        }
    }

    @Test("no bytes from a peer trap, hang or count as a handshake")
    func garbage() async throws {
        var random = SeededGenerator(seed: 7)
        for _ in 0..<300 {
            let pair = try await Pair()
            var bytes = (0..<Int.random(in: 1...200, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            // Half of the inputs begin like TLS.
            if Bool.random(using: &random) { bytes = [0x16, 3, 3, 0, UInt8(min(255, bytes.count))] + bytes }
            let outcome = Result {
                try unsafe bytes.withUnsafeBytes { memory in
                    var input = unsafe memory
                    return try unsafe pair.client.handshake(&input)
                }
            }
            #expect((try? outcome.get()) != true)
        }
    }

    @Test("the error for a missing library says what to install")
    func missing() {
        let error = #expect(throws: TransportError.self) {
            try OpenSSL(firstOf: [("libnothing.so.9", "libnothing.so.8")])
        }
        #expect(error?.code == .tls(.libraryMissing))
        #expect(error?.message.contains("install libssl3") == true)
        #expect(error?.message.contains("libnothing.so.8") == true)
    }

    @Test("a pin can be read in every form that configurations use")
    func pins() {
        let base64 = "r/mIkG3eEpVdm+u/ko/cwxzOMo1bk4TyHIlByibiA5E="
        let pin = PublicKeyPin(base64: base64)
        #expect(pin != nil)
        #expect(PublicKeyPin(base64: "sha256/" + base64) == pin)
        #expect(PublicKeyPin(base64: "sha256//" + base64) == pin)
        #expect(PublicKeyPin(base64: "pin-sha256=" + base64) == pin)
        #expect(PublicKeyPin(base64: base64 + "\n") == pin)
        #expect(pin == pin.flatMap { PublicKeyPin(sha256: $0.digest) })
        for bad in ["", "sha256/", "abc", base64 + "AA", "r/mIkG3eEpVdm+u/ko/cwxzOMo1bk4TyHIlByibiA5!="] {
            #expect(PublicKeyPin(base64: bad) == nil, "\(bad)")
        }
        #expect(PublicKeyPin(sha256: [1, 2, 3]) == nil)
    }
}
