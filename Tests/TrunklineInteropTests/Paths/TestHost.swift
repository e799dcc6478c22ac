import Foundation
import Trunkline

#if os(Linux)
    /// A host in a network namespace of its own: it has no interface but the loopback until it is given some.
    ///
    /// The process lives on many of them at once, as a namespace belongs to a thread: what happens on `loops` happens on this
    /// host: clients and servers on them. The host has a path monitor of its own.
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
    /// Names are resolved outside of it: endpoints need addresses. Needs what `NetworkNamespace.isAvailable` says.
    final class TestHost: Sendable {
        let name: String
        let monitor = SystemPathMonitor()

        /// Makes the host, with its loopback up.
        init() throws {
            name = "trunkline-\(UInt32.random(in: 0 ... .max))"
            try NetworkNamespace.ip("netns add \(name)")
            try ip("link set lo up")
        }

        deinit { remove() }

        /// Removes the host and its interfaces. Threads of `loops` go on in what is left of it.
        func remove() {
            // Those that are left keep the namespace, and it its interfaces.
            for link in (try? links()) ?? [] where link != "lo" { try? ip("link del \(link)") }
            _ = try? NetworkNamespace.ip("netns del \(name)")
        }

        /// Runs `ip` here.
        func ip(_ arguments: String) throws { try NetworkNamespace.ip("-n \(name) \(arguments)") }

        /// Runs `ip` here once, with a command in each line.
        func ip(lines: [String]) throws {
            let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(name).batch")
            try lines.joined(separator: "\n").write(to: file, atomically: true, encoding: .utf8)
            defer { try? FileManager.default.removeItem(at: file) }
            try ip("-batch \(file.path)")
        }

        /// Runs a program here, such as `sysctl`.
        func run(_ command: String) throws { try NetworkNamespace.ip("netns exec \(name) \(command)") }

        /// Connects an interface here with one of `other`, by a cable (veth), both up. Addresses have a prefix length.
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
                // An IPv6 address is of use at once, without a search for others that have it.
                try host.ip("addr add \(address) dev \(interface)" + (address.contains(":") ? " nodad" : ""))
                try host.ip("link set \(interface) up")
            }
        }

        /// An event loop whose thread lives here, with its sockets. Without the monitor, clients know nothing of the network.
        func loops(_ mechanism: EventLoops.Mechanism = .systemDefault, isMonitored: Bool = true) -> EventLoops {
            loops(mechanism, monitoredBy: isMonitored ? monitor : NoPathMonitor.shared)
        }

        /// The same, with another monitor than the host's own.
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

        /// Takes the calling thread into a namespace.
        private static func enter(_ name: String) {
            typealias SetNamespace = @convention(c) (Int32, Int32) -> Int32
            let descriptor = unsafe open("/run/netns/\(name)", O_RDONLY | O_CLOEXEC)
            // Swift's Glibc does not have it.
            guard descriptor >= 0, let symbol = unsafe dlsym(nil, "setns") else { fatalError("no namespace \(name)") }
            let code = unsafe unsafeBitCast(symbol, to: SetNamespace.self)(descriptor, 0x4000_0000)  // CLONE_NEWNET
            guard code == 0 else { fatalError("setns failed with \(errno)") }
            close(descriptor)
        }
    }
#endif
