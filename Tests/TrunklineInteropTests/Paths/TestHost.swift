import Foundation
import Trunkline

@testable import TrunklineIO

#if os(Linux)
    /// A host in its own network namespace. It has only the loopback interface until others are connected.
    ///
    /// A namespace belongs to a thread, so the process can be on many hosts at once: clients and servers on `loops` are
    /// on this host. The host has its own path monitor.
    ///
    /// ```swift
    /// let (near, far) = (try TestHost(), try TestHost())
    /// defer { near.remove(); far.remove() }
    /// try near.connect("eth0", "198.18.1.1/24", to: far, "eth0", "198.18.1.2/24")
    /// try near.ip("route add default via 198.18.1.2")
    /// let server = try await LoopbackServer.start(…, on: far.loops())
    /// let client = Client(…, on: near.loops())
    /// try near.ip("link set eth0 down")
    /// ```
    ///
    /// Names are resolved outside of the host, so endpoints need addresses. Requires `NetworkNamespace.isAvailable`.
    final class TestHost: Sendable {
        let name: String
        let monitor = SystemPathMonitor()

        /// Creates the host, with its loopback interface up.
        init() throws {
            name = "trunkline-\(UInt32.random(in: 0 ... .max))"
            try NetworkNamespace.ip("netns add \(name)")
            try ip("link set lo up")
        }

        deinit { remove() }

        /// Removes the host and its interfaces. The threads of `loops` continue without a network.
        func remove() {
            // Remaining threads keep the namespace, and the namespace would keep its interfaces.
            for link in (try? links()) ?? [] where link != "lo" { try? ip("link del \(link)") }
            _ = try? NetworkNamespace.ip("netns del \(name)")
        }

        /// Runs `ip` on this host.
        func ip(_ arguments: String) throws { try NetworkNamespace.ip("-n \(name) \(arguments)") }

        /// Runs `ip` on this host once, with a command in each line.
        func ip(lines: [String]) throws {
            let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(name).batch")
            try lines.joined(separator: "\n").write(to: file, atomically: true, encoding: .utf8)
            defer { try? FileManager.default.removeItem(at: file) }
            try ip("-batch \(file.path)")
        }

        /// Runs a program on this host, such as `sysctl`.
        func run(_ command: String) throws { try NetworkNamespace.ip("netns exec \(name) \(command)") }

        /// Connects an interface of this host to one of `other` by a cable (veth), and brings both up. The addresses
        /// have a prefix length.
        func connect(
            _ interface: String,
            _ address: String,
            to other: TestHost,
            _ otherInterface: String,
            _ otherAddress: String
        ) throws {
            try NetworkNamespace.ip(
                "-n \(name) link add \(interface) type veth peer name \(otherInterface) netns \(other.name)"
            )
            for (host, interface, address) in [(self, interface, address), (other, otherInterface, otherAddress)] {
                // With `nodad`, an IPv6 address can be used at once, without detection of duplicates.
                try host.ip("addr add \(address) dev \(interface)" + (address.contains(":") ? " nodad" : ""))
                try host.ip("link set \(interface) up")
            }
        }

        /// An event loop whose thread and sockets are on this host. Without the monitor, clients know nothing of the
        /// network.
        func loops(_ mechanism: EventLoops.Mechanism = .systemDefault, isMonitored: Bool = true) -> EventLoops {
            loops(mechanism, monitoredBy: isMonitored ? monitor : NoPathMonitor.shared)
        }

        /// The same with another path monitor than the host's own.
        func loops(
            _ mechanism: EventLoops.Mechanism = .systemDefault,
            monitoredBy pathMonitor: any PathMonitor
        ) -> EventLoops {
            let name = name
            return EventLoops(mechanism: mechanism, pathMonitor: pathMonitor) { thread, body in
                startThread(named: thread) {
                    TestHost.enter(name)
                    body()
                }
            }
        }

        private func links() throws -> [String] {
            try NetworkNamespace.ip("-n \(name) -br link show").split(separator: "\n").compactMap { line in
                line.split(separator: " ").first.flatMap { $0.split(separator: "@").first }.map(String.init)
            }
        }

        /// Moves the calling thread into a namespace.
        private static func enter(_ name: String) {
            typealias SetNamespace = @convention(c) (Int32, Int32) -> Int32
            let descriptor = unsafe open("/run/netns/\(name)", O_RDONLY | O_CLOEXEC)
            // Swift's Glibc module does not have `setns`.
            guard descriptor >= 0, let symbol = unsafe dlsym(nil, "setns") else { fatalError("no namespace \(name)") }
            let code = unsafe unsafeBitCast(symbol, to: SetNamespace.self)(descriptor, 0x4000_0000)  // CLONE_NEWNET
            guard code == 0 else { fatalError("setns failed with \(errno)") }
            close(descriptor)
        }
    }
#endif
