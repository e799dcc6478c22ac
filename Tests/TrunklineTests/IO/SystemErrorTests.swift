import Testing

@testable import Trunkline

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// What the error numbers of the system mean, which depends on the call that failed.
@Suite struct SystemErrorTests {
    private typealias Code = TransportError.Code

    @Test(
        arguments: [
            (ECONNREFUSED, Code.refused), (EHOSTUNREACH, .unreachable), (ENETUNREACH, .unreachable),
            (ENETDOWN, .unreachable), (EHOSTDOWN, .unreachable), (ETIMEDOUT, .timedOut), (ECONNRESET, .reset),
            (EPIPE, .reset), (ECONNABORTED, .reset), (EMFILE, .system), (EACCES, .system),
        ] as [(Int32, TransportError.Code)]
    )
    func someMeanTheSameEverywhere(_ number: Int32, _ code: TransportError.Code) {
        let errors = [
            transportError(number, "a"), addressError(number, "a"), connectError(number, .loopback(port: 1), "a"),
        ]
        #expect(errors.allSatisfy { $0.code == code && $0.errno == number })
    }

    /// A missing file is not a server that refuses connections, and an invalid argument of `read` is not an address.
    @Test(
        arguments: [
            (ENOENT, Code.system, .system, .refused), (EINVAL, .system, .invalidAddress, .invalidAddress),
            (EAFNOSUPPORT, .system, .invalidAddress, .invalidAddress),
            (ENAMETOOLONG, .system, .invalidAddress, .invalidAddress),
            (EPROTONOSUPPORT, .system, .invalidAddress, .invalidAddress), (EADDRNOTAVAIL, .system, .system, .system),
        ] as [(Int32, TransportError.Code, TransportError.Code, TransportError.Code)]
    )
    func othersDependOnTheCall(
        _ number: Int32,
        _ other: TransportError.Code,
        _ address: TransportError.Code,
        _ connect: TransportError.Code
    ) {
        #expect(transportError(number, "reading x").code == other)
        #expect(addressError(number, "listening on x").code == address)
        #expect(connectError(number, .loopback(port: 1), "a").code == connect)
    }

    @Test func aMissingFileIsNotARefusal() {
        guard case .failure(let error) = contents(ofFile: "/nonexistent/trunkline", limit: 1) else {
            Issue.record("the file exists")
            return
        }
        #expect(error.code == .system && error.errno == ENOENT)
    }
}
