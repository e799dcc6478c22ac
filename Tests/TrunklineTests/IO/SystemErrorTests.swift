import Testing

@testable import TrunklineCore
@testable import TrunklineIO

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// What the error numbers of the system mean, which depends on the call that failed.
@Suite struct SystemErrorTests {}

extension SystemErrorTests {
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

    /// The rejection by a router or a firewall (ICMP) read "no route leads to the address; no route to host", which sent
    /// operators to the routes of their own host.
    @Test func aRejectionOnTheWayIsNoLackOfARoute() {
        let address = SocketAddress.loopback(port: 1)
        for number in [EHOSTUNREACH, ENETUNREACH, EACCES] {
            let error = connectError(number, address, "connecting to a", isAtOnce: false)
            #expect(error.code == .unreachable && error.errno == number)
            #expect(error.message.contains("a firewall on the way"), "\(error)")
            #expect(!error.message.lowercased().contains("route of this host"), "\(error)")
            #expect(!error.message.contains("oute to host"), "\(error)")
        }
        #expect(transportError(EHOSTUNREACH, "reading").message.contains("a firewall on the way"))
        // What the call itself says, this host has decided.
        let lacking = connectError(ENETUNREACH, address, "connecting to a")
        #expect(lacking.message == "connecting to a: no route of this host leads to the address")
        #expect(connectError(EHOSTUNREACH, address, "a").message.contains("this host rejects the address"))
        #expect(connectError(EACCES, address, "a").message.contains("this host prohibits the address"))
        // A socket file that may not be used.
        let file = connectError(EACCES, .unix(path: "/a"), "a", isAtOnce: true)
        #expect(file.code == .system && file.message == "a: \(systemMessage(EACCES))")
    }

    /// A server to which this host has no route does not count as bad. On a host whose kernel has no IPv6, and on one without
    /// an IPv6 address, it did: `EAFNOSUPPORT` is an invalid address, and `EADDRNOTAVAIL` was not thought of.
    @Test func someErrorsSayThatThereIsNoRoute() {
        let address = SocketAddress.loopback(port: 1)
        let errors = [
            connectError(EAFNOSUPPORT, address, "a"), transportError(EAFNOSUPPORT, "opening a socket"),
            connectError(ENETUNREACH, address, "a"), TransportError(.unreachable, errno: EADDRNOTAVAIL, "a"),
        ]
        for error in errors { #expect(error.saysNoRoute, "\(error)") }
        // No free local port; what another host has said; and the proxy of the address, which is another address.
        let others = [
            connectError(EADDRNOTAVAIL, address, "a"), connectError(EHOSTUNREACH, address, "a", isAtOnce: false),
            connectError(ECONNREFUSED, address, "a"), TransportError(.proxy(.unreachable), errno: ENETUNREACH, "a"),
        ]
        for error in others { #expect(!error.saysNoRoute, "\(error)") }
    }

    @Test func aMissingFileIsNotARefusal() {
        guard case .failure(let error) = contents(ofFile: "/nonexistent/trunkline", limit: 1) else {
            Issue.record("the file exists")
            return
        }
        #expect(error.code == .system && error.errno == ENOENT)
    }
}
