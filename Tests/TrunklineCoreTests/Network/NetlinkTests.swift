import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// Linux's messages about routes and interfaces, and the client's requests: bytes in the kernel's format.
@Suite struct NetlinkTests {}

extension NetlinkTests {
    private static func bytes<Value: FixedWidthInteger>(_ value: Value) -> [UInt8] {
        var value = value
        return unsafe withUnsafeBytes(of: &value) { unsafe Array($0) }
    }

    private static func attribute(_ type: UInt16, _ value: [UInt8]) -> [UInt8] {
        let padding = [UInt8](repeating: 0, count: (4 - value.count % 4) % 4)
        return bytes(UInt16(value.count + 4)) + bytes(type) + value + padding
    }

    private static func message(_ type: UInt16, sequence: UInt32 = 1, _ body: [UInt8]) -> [UInt8] {
        bytes(UInt32(16 + body.count)) + bytes(type) + bytes(UInt16(0)) + bytes(sequence) + bytes(UInt32(0)) + body
    }

    private static func route(kind: UInt8 = 1, flags: UInt32 = 0, _ attributes: [UInt8]) -> [UInt8] {
        message(24, [2, 32, 0, 0, 254, 0, 0, kind] + bytes(flags) + attributes)
    }

    private static func link(
        hardware: UInt16 = 1,
        flags: UInt32 = 0x11043,
        _ attributes: [UInt8] = []
    ) -> [UInt8] {
        message(16, [0, 0] + bytes(hardware) + bytes(UInt32(3)) + bytes(flags) + bytes(UInt32(0)) + attributes)
    }

    private func only(_ datagram: [UInt8]) -> NetlinkMessage? {
        let messages = Array(NetlinkMessages(datagram[...]))
        return messages.count == 1 ? messages[0] : nil
    }

    // MARK: Answers

    @Test func aRouteIsRead() throws {
        let attributes =
            Self.attribute(4, Self.bytes(UInt32(7))) + Self.attribute(5, [10, 0, 0, 1])
            + Self.attribute(7, [10, 0, 0, 2])
        let route = try #require(only(Self.route(attributes)).flatMap { NetlinkRoute($0) })
        #expect(route.interface == 7 && route.gateway == [10, 0, 0, 1] && route.source == [10, 0, 0, 2])
        #expect(route.leadsOn && !route.isLocal)
    }

    /// The next router of an IPv4 route may have an IPv6 address (RFC 5549).
    @Test func aGatewayMayHaveTheOtherAddressFamily() throws {
        let gateway = [UInt8(0xfe), 0x80] + [UInt8](repeating: 0, count: 13) + [1]
        let datagram = Self.route(Self.attribute(18, Self.bytes(UInt16(10)) + gateway))
        let route = try #require(only(datagram).flatMap { NetlinkRoute($0) })
        #expect(route.gateway == gateway)
    }

    @Test(
        arguments: [
            (1, 0, true), (2, 0, true), (6, 0, false), (7, 0, false), (8, 0, false), (9, 0, false), (1, 1, false),
            (1, 16, false),
        ] as [(UInt8, UInt32, Bool)]
    )
    func unusableRoutesDoNotLeadOn(kind: UInt8, flags: UInt32, leadsOn: Bool) throws {
        let route = try #require(only(Self.route(kind: kind, flags: flags, [])).flatMap { NetlinkRoute($0) })
        #expect(route.leadsOn == leadsOn && route.isLocal == (kind == 2))
    }

    @Test func anInterfaceIsRead() throws {
        let attributes =
            Self.attribute(3, Array("wg0\0".utf8))
            + Self.attribute(
                18 | 0x8000,
                Self.attribute(2, [1, 2, 3, 4]) + Self.attribute(1, Array("wireguard\0".utf8))
            )
        let link = try #require(only(Self.link(attributes)).flatMap { NetlinkLink($0) })
        #expect(link.index == 3 && link.name == "wg0" && link.kind == "wireguard")
        #expect(link.isTunnel && link.isUp && link.isUsable && !link.isLoopback)
    }

    @Test(
        arguments: [
            ("wireguard", 1, 0x1043, true), ("tun", 1, 0x1043, true), ("gre", 778, 0x1043, true),
            ("vxlan", 1, 0x1043, true),
            ("veth", 1, 0x1043, false), ("bridge", 1, 0x1043, false), ("dummy", 1, 0x1043, false),
            ("wwan", 65534, 0x1053, false),
            (nil, 1, 0x1043, false), (nil, 1, 0x1053, true), (nil, 776, 0x1043, true), (nil, 512, 0x1043, true),
            ("unheardOf", 1, 0x1053, true), ("unheardOf", 1, 0x1043, false),
        ] as [(String?, UInt16, UInt32, Bool)]
    )
    func tunnelsAreRecognized(kind: String?, hardware: UInt16, flags: UInt32, isTunnel: Bool) throws {
        let attributes = kind.map { Self.attribute(18, Self.attribute(1, Array($0.utf8) + [0])) } ?? []
        let datagram = Self.link(hardware: hardware, flags: flags, attributes)
        let link = try #require(only(datagram).flatMap { NetlinkLink($0) })
        #expect(link.isTunnel == isTunnel)
    }

    /// Down; up without a carrier; up, like a tunnel or a dummy; up with a carrier that has yet to settle; a carrier,
    /// but not up.
    @Test(
        arguments: [(0x1002, false), (0x1003, false), (0x1043, true), (0x11003, true), (0x10042, false)]
            as [(UInt32, Bool)]
    )
    func usableInterfacesAreRecognized(flags: UInt32, isUsable: Bool) throws {
        let link = try #require(only(Self.link(flags: flags)).flatMap { NetlinkLink($0) })
        #expect(link.isUsable == isUsable)
    }

    @Test func errorsAreRead() {
        #expect(only(Self.message(2, Self.bytes(Int32(-101)) + Self.link()))?.errorNumber == 101)
        #expect(only(Self.message(2, Self.bytes(Int32(0)) + Self.link()))?.errorNumber == 0)
        #expect(only(Self.message(2, Self.bytes(Int32.min)))?.errorNumber == .min)
        #expect(only(Self.message(2, [1, 2]))?.errorNumber == nil)
        #expect(only(Self.route([]))?.errorNumber == nil)
    }

    // MARK: Notifications

    @Test func notificationsThatConcernPathsAreRecognized() {
        func concerns(_ datagram: [UInt8]) -> Bool? { only(datagram)?.concernsPaths }
        #expect(concerns(Self.link()) == true)
        #expect(concerns(Self.message(16, [7] + [UInt8](repeating: 0, count: 15))) == false)
        #expect(concerns(Self.route([])) == true)
        #expect(concerns(Self.route(flags: 0x200, [])) == false)
        for type in [17, 20, 21, 25, 32, 33, 104, 105] as [UInt16] { #expect(concerns(Self.message(type, [])) == true) }
        for type in [0, 1, 2, 3, 28, 29, 36] as [UInt16] { #expect(concerns(Self.message(type, [])) == false) }
    }

    @Test func aDatagramMayHaveSeveralMessages() {
        let datagram = Self.message(20, sequence: 1, [1, 2, 3]) + [0] + Self.message(21, sequence: 2, [4])
        let messages = Array(NetlinkMessages(datagram[...]))
        #expect(messages.map(\.type) == [20, 21] && messages.map(\.sequence) == [1, 2])
        #expect(messages.map { Array($0.body) } == [[1, 2, 3], [4]])
    }

    // MARK: Invalid messages

    /// Reads all messages and attributes, and returns their number.
    private func readAll(_ datagram: [UInt8]) -> Int {
        var count = 0
        // Not at the start of its array, because messages may follow others.
        for message in NetlinkMessages(([0, 0, 0] + datagram).dropFirst(3)) {
            count += 1 + NetlinkAttributes(message.body).reduce(0) { sum, _ in sum + 1 }
            _ = (NetlinkRoute(message), NetlinkLink(message), message.errorNumber, message.concernsPaths)
        }
        return count
    }

    @Test(arguments: [0, 1, 15, 17, 0x7fff_ffff, 0xffff_ffff] as [UInt32])
    func aWrongLengthEndsTheMessages(length: UInt32) {
        #expect(readAll(Self.bytes(length) + [UInt8](repeating: 0, count: 12)) == 0)
    }

    @Test(arguments: [0, 1, 3, 9, 0xffff] as [UInt16])
    func aWrongLengthOfAnAttributeEndsTheAttributes(length: UInt16) {
        let attributes =
            Self.attribute(4, Self.bytes(UInt32(7))) + Self.bytes(length) + Self.bytes(UInt16(5)) + [1, 2, 3, 4]
        let route = only(Self.route(attributes)).flatMap { NetlinkRoute($0) }
        #expect(route?.interface == 7 && route?.gateway == nil)
    }

    @Test func truncatedMessagesNeverTrap() {
        let datagrams = [
            Self.route(
                Self.attribute(4, Self.bytes(UInt32(7))) + Self.attribute(18, Self.bytes(UInt16(2)) + [10, 0, 0, 1])
            ),
            Self.link(
                Self.attribute(3, Array("eth0".utf8)) + Self.attribute(18, Self.attribute(1, Array("veth".utf8)))
            ),
            Self.message(2, Self.bytes(Int32(-101))),
        ]
        for datagram in datagrams {
            for count in 0..<datagram.count {
                // Cut off by the end of the datagram, and with a length that matches the cut.
                #expect(readAll(Array(datagram.prefix(count))) == 0)
                let rest = datagram.prefix(max(count, 16)).dropFirst(4)
                _ = readAll(Self.bytes(UInt32(max(count, 16))) + rest)
            }
        }
    }

    @Test(arguments: 0..<20 as Range<UInt64>)
    func randomBytesNeverTrap(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let good = Self.route(Self.attribute(4, Self.bytes(UInt32(7)))) + Self.link(Self.attribute(3, [1, 2]))
        for _ in 0..<500 {
            var bytes = good
            if Bool.random(using: &random) {
                bytes = [UInt8](repeating: 0, count: .random(in: 0..<200, using: &random))
            }
            for _ in 0..<Int.random(in: 0..<20, using: &random) where !bytes.isEmpty {
                bytes[Int.random(in: bytes.indices, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            #expect(readAll(bytes) <= bytes.count)
        }
    }

    // MARK: Requests

    @Test func requestsAreWellFormed() throws {
        let target = SocketAddress.ipv6([0xfe, 0x80] + [UInt8](repeating: 0, count: 13) + [9], port: 443, scope: 4)
        let source = SocketAddress.ipv6([0xfe, 0x80] + [UInt8](repeating: 0, count: 13) + [8], port: 0, scope: 4)
        let request = try #require(NetlinkRequest.route(to: target, from: source, sequence: 77))
        let message = try #require(only(request))
        #expect(message.type == 26 && message.sequence == 77 && Array(message.body.prefix(3)) == [10, 128, 128])
        let attributes = Array(NetlinkAttributes(message.body.dropFirst(12)))
        #expect(attributes.map(\.type) == [1, 2, 4, 27, 29])
        #expect(Array(attributes[0].value) == target.ipBytes && Array(attributes[1].value) == source.ipBytes)
        #expect(Array(attributes[2].value) == Self.bytes(UInt32(4)) && Array(attributes[3].value) == [6])
        #expect(Array(attributes[4].value) == [1, 0xbb])
        #expect(request.count % 4 == 0)

        let plain = try #require(
            NetlinkRequest.route(to: .ipv4([10, 0, 0, 1], port: 0), from: nil, findsEntry: true, sequence: 1)
        )
        #expect(plain.count == 16 + 12 + 8 && Array(plain[24..<28]) == Self.bytes(UInt32(0x2000)))
        #expect(try #require(only(NetlinkRequest.link(5, sequence: 2))).body.count == 16 + 8)
    }

    @Test func invalidAddressesAreNotRequested() {
        #expect(NetlinkRequest.route(to: .unix(path: "/x"), from: nil, sequence: 1) == nil)
        #expect(NetlinkRequest.route(to: .ipv4([1, 2, 3], port: 1), from: nil, sequence: 1) == nil)
        let other = SocketAddress.ipv6([UInt8](repeating: 1, count: 16), port: 0, scope: 0)
        #expect(NetlinkRequest.route(to: .ipv4([1, 2, 3, 4], port: 1), from: other, sequence: 1) == nil)
    }
}

/// Sleep, distinguished from a change of the clock.
@Suite struct SleepGaugeTests {}

extension SleepGaugeTests {
    private func instant(_ seconds: Double) -> Instant { Instant(nanoseconds: Int64(seconds * 1e9)) }

    @Test func onlySleepIsReportedAsSleep() {
        var gauge = SleepGauge(total: instant(100), awake: instant(40))
        let readings: [(Double, Double, Bool)] = [
            (101, 41, false),  // a second passes
            (131, 42, true),  // it has slept for 29 s
            (132, 43, false),
            (133.4, 43.9, false),  // reading the clocks may take half a second
            (135, 44.4, true),
        ]
        for (total, awake, hasSlept) in readings {
            let answer = gauge.hasSlept(total: instant(total), awake: instant(awake))
            #expect(answer == hasSlept)
        }
        // No reading causes an overflow.
        _ = gauge.hasSlept(total: .distantPast, awake: .distantFuture)
    }
}
