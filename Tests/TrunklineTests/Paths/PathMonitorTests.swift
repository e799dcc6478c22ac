import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

#if os(Linux)
    /// The monitor of this host's network, which does not change here. `PathChangeTests` of the interop tests has
    /// networks that change.
    @Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
    struct PathMonitorTests {
        private final class Observer: PathObserver {
            let changes = Lock<[NetworkChange]>([])
            func networkChanged(_ change: NetworkChange) { changes.withLock { $0.append(change) } }
        }

        private func added(
            _ observer: any PathObserver = Observer(),
            to monitor: SystemPathMonitor,
            on loop: any EventLoop
        ) async -> Bool {
            await withCheckedContinuation { continuation in
                loop.schedule(LoopClosure { continuation.resume(returning: monitor.add(observer, on: loop)) })
            }
        }

        private static let somewhere = SocketAddress.ipv4([192, 0, 2, 1], port: 443)

        @Test(arguments: [EventLoops.Mechanism.epoll, .poll])
        func addressesOfThisHostAreLocal(mechanism: EventLoops.Mechanism) async {
            let loop = EventLoops(count: 1, mechanism: mechanism).next()
            let monitor = SystemPathMonitor()
            #expect(monitor.path(to: Self.somewhere, from: nil) == .unknown)
            #expect(await added(to: monitor, on: loop))
            let ones = [UInt8](repeating: 0, count: 15) + [1]
            let mapped = [UInt8](repeating: 0, count: 10) + [0xff, 0xff, 127, 0, 0, 1]
            let zeros = [UInt8](repeating: 0, count: 16)
            for address in [
                SocketAddress.loopback(port: 80), .unix(path: "/tmp/x"), .ipv6(ones, port: 80, scope: 0),
                .ipv6(mapped, port: 80, scope: 0), .ipv4([0, 0, 0, 0], port: 80), .ipv6(zeros, port: 80, scope: 0),
            ] {
                #expect(monitor.path(to: address, from: nil) == .local && monitor.isUsable(address))
            }
        }

        /// Netlink and a connected socket report the same path.
        @Test(arguments: [
            somewhere, .ipv4([8, 8, 8, 8], port: 53),
            .ipv6([0x20, 1, 0xd, 0xb8] + [UInt8](repeating: 1, count: 12), port: 443, scope: 0),
        ])
        func bothWaysToFindAPathAgree(address: SocketAddress) async throws {
            let loop = EventLoops(count: 1).next()
            let monitor = SystemPathMonitor()
            #expect(await added(to: monitor, on: loop))
            let path = monitor.path(to: address, from: nil)
            #expect(monitor.path(to: address, from: nil) == path)
            switch (path, SocketPath.path(to: address, from: nil)) {
            case (.route(let route), .route(let other)):
                #expect(route.interface == other.interface && route.sourceAddress == other.sourceAddress)
                #expect(route.isTunnel == other.isTunnel)
                let source = try #require(route.source)
                #expect(monitor.isUsable(source) && monitor.hasNetwork)
                #expect(monitor.path(to: address, from: source) == path)
            case (let path, let other): #expect(path == other)
            }
        }

        @Test func anAddressOfAnotherHostIsNotUsable() async {
            let loop = EventLoops(count: 1).next()
            let monitor = SystemPathMonitor()
            #expect(await added(to: monitor, on: loop))
            #expect(!monitor.isUsable(Self.somewhere))
            // No packet can be sent from it.
            #expect(monitor.path(to: .ipv4([198, 51, 100, 1], port: 1), from: Self.somewhere) == .noRoute)
            #expect(SocketPath.path(to: .ipv4([198, 51, 100, 1], port: 1), from: Self.somewhere) == .noRoute)
        }

        // MARK: Without netlink

        private static let refusals: [@Sendable (UInt32) -> Int32] = [
            { _ in -EPERM },
            { _ in -EACCES },
            { _ in -EAFNOSUPPORT },
            // Only the second socket is refused.
            { groups in groups == 0 ? -EPERM : openNetlinkSocket(groups) },
            // A socket whose requests are not answered.
            { groups in
                groups == 0
                    ? socket(AF_INET, Int32(SOCK_DGRAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
                    : openNetlinkSocket(groups)
            },
        ]

        @Test(arguments: refusals.indices)
        func withoutPermissionPathsAreUnknownAndThisIsReportedOnce(index: Int) async {
            let (lines, opened) = (Lock<[String]>([]), Lock(0))
            let monitor = SystemPathMonitor(
                opening: { groups in
                    opened.withLock { $0 += 1 }
                    return Self.refusals[index](groups)
                },
                reporting: { line in lines.withLock { $0.append(line) } }
            )
            let loop = EventLoops(count: 1).next()
            for _ in 0..<3 { #expect(await added(to: monitor, on: loop) == false) }
            #expect(monitor.path(to: Self.somewhere, from: nil) == .unknown)
            #expect(monitor.path(to: .loopback(port: 1), from: nil) == .local)
            #expect(monitor.isUsable(Self.somewhere) && monitor.hasNetwork)
            let said = lines.withLock { $0 }
            #expect(said.count == 1 && said[0].hasPrefix("trunkline: network changes are not monitored: netlink: "))
            if index == 0 { #expect(said[0].hasSuffix("Operation not permitted (EPERM)\n")) }
            #expect(opened.withLock { $0 } <= 2)
        }

        /// There are no free descriptors at first, and some later.
        @Test func theMonitorIsStartedAgainAfterDescriptorsHadRunOut() async {
            let (lines, isOut) = (Lock<[String]>([]), Lock(true))
            let monitor = SystemPathMonitor(
                opening: { groups in isOut.withLock { $0 } ? -EMFILE : openNetlinkSocket(groups) },
                reporting: { line in lines.withLock { $0.append(line) } }
            )
            let loop = EventLoops(count: 1).next()
            #expect(await added(to: monitor, on: loop) == false)
            isOut.withLock { $0 = false }
            #expect(await added(to: monitor, on: loop))
            #expect(lines.withLock { $0.count } == 1)
        }

        /// A socket that fails again and again is closed, and observers are notified.
        @Test func aSocketThatKeepsFailingIsClosed() async throws {
            let lines = Lock<[String]>([])
            let monitor = SystemPathMonitor(
                opening: { groups in
                    // Not connected: reading from it fails with ENOTCONN.
                    groups == 0
                        ? openNetlinkSocket(0)
                        : socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
                },
                reporting: { line in lines.withLock { $0.append(line) } }
            )
            let loop = EventLoops(count: 1).next()
            let observer = Observer()
            #expect(await added(observer, to: monitor, on: loop))
            while observer.changes.withLock({ $0.isEmpty }) { await moment() }
            #expect(monitor.path(to: Self.somewhere, from: nil) == .unknown)
            #expect(lines.withLock { $0.count } == 1)
            #expect(observer.changes.withLock { $0.count } == 1)
        }

        // MARK: Observers

        @Test func deallocatedObserversAreRemoved() async {
            let loop = EventLoops(count: 1).next()
            let observers = PathObservers()
            let kept = (0..<10).map { _ in Observer() }
            for observer in kept { observers.add(observer, on: loop) }
            for _ in 0..<10_000 { observers.add(Observer(), on: loop) }
            #expect(observers.count <= 64)
            observers.tell(.wake)
            while kept.contains(where: { $0.changes.withLock { $0.isEmpty } }) { await moment() }
            #expect(observers.count == kept.count)
        }

        @Test func everyObserverIsCalledOnItsEventLoop() async {
            final class Listener: PathObserver {
                let loop: any EventLoop
                let heard = Lock<[Bool]>([])
                init(_ loop: any EventLoop) { self.loop = loop }
                func networkChanged(_ change: NetworkChange) { heard.withLock { $0.append(loop.isCurrent) } }
            }
            let observers = PathObservers()
            let listeners = (0..<3).map { _ in EventLoops(count: 1).next() }.flatMap { [Listener($0), Listener($0)] }
            for listener in listeners { observers.add(listener, on: listener.loop) }
            observers.tell(.paths)
            for listener in listeners {
                while listener.heard.withLock({ $0.isEmpty }) { await moment() }
                #expect(listener.heard.withLock { $0 } == [true])
            }
        }
    }
#endif

/// The addresses of this host, which has at least a loopback address.
@Suite struct InterfaceAddressTests {}

extension InterfaceAddressTests {
    @Test func theLoopbackAddressIsListed() throws {
        let all = try #require(InterfaceAddress.all())
        let loopback = try #require(all.first { $0.address == .loopback(port: 0) })
        #expect(loopback.isUp && !loopback.isOfNetwork && !loopback.isOfTunnel && !loopback.interface.isEmpty)
    }

    private func known(_ address: SocketAddress, _ name: String = "eth0", flags: UInt32 = 0x43) -> InterfaceAddress {
        InterfaceAddress(interface: name, flags: flags, address: address)
    }

    @Test func addressesOfANetworkAreRecognized() {
        let ten = SocketAddress.ipv4([10, 0, 0, 2], port: 0)
        #expect(known(ten).isOfNetwork)
        #expect(!known(ten, flags: 0x42).isOfNetwork)  // down
        #expect(!known(ten, flags: 0x03).isOfNetwork)  // no carrier
        #expect(!known(ten, flags: 0x4b).isOfNetwork)  // the loopback
        #expect(!known(.ipv4([169, 254, 1, 2], port: 0)).isOfNetwork)
        let rest = [UInt8](repeating: 1, count: 14)
        #expect(!known(.ipv6([0xfe, 0x80] + rest, port: 0, scope: 2)).isOfNetwork)
        #expect(known(.ipv6([0xfd, 0x00] + rest, port: 0, scope: 0)).isOfNetwork)
    }

    @Test func tunnelsAreRecognized() {
        let ten = SocketAddress.ipv4([10, 0, 0, 2], port: 0)
        #expect(
            known(ten, "utun3").isOfTunnel && known(ten, "ppp0").isOfTunnel
                && known(ten, "ipsec0").isOfTunnel
        )
        #expect(known(ten, "x", flags: 0x51).isOfTunnel && !known(ten, "en0").isOfTunnel)
    }
}
