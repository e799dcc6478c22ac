import Foundation
import Trunkline
import TrunklineHTTP
import TrunklineTesting

/// An HTTP server at `localhost` that listens on one address of that name, while the other address refuses connections.
enum HalfDeadName {
    private struct NoPort: Error {}

    /// Starts the server for `body`, and stops it afterwards in every case. Does nothing on a machine without IPv6.
    nonisolated(nonsending) static func with(
        live family: AddressFamily,
        _ handler: @escaping @Sendable (HTTP1Request) -> Reaction,
        _ body: nonisolated(nonsending) (LoopbackServer, URL) async throws -> Void
    ) async throws {
        let address: SocketAddress =
            switch family {
            case .ipv4: .loopback(port: 0)
            case .ipv6: .ipv6([UInt8](repeating: 0, count: 15) + [1], port: 0, scope: 0)
            }
        for _ in 0..<20 {
            let started = try? await LoopbackServer.start(at: address, speaking: HTTP1Codec()) { frame in
                guard let request = try? HTTP1Request(frame) else { return .close }
                return handler(request)
            }
            guard let server = started else { return }
            let digits = "\(server.endpoint)".split(separator: ":").last ?? ""
            let url = URL(string: "http://localhost:\(digits)/")
            guard let url, let port = url.port, let dead = hold(UInt16(port), family == .ipv4 ? AF_INET6 : AF_INET)
            else {
                await server.stop()
                continue
            }
            do { try await body(server, url) } catch {
                close(dead)
                await server.stop()
                throw error
            }
            close(dead)
            return await server.stop()
        }
        throw NoPort()
    }

    /// Binds a socket to a port without listening, so that no other process listens there.
    private static func hold(_ port: UInt16, _ family: Int32) -> Int32? {
        #if canImport(Darwin)
            let kind = SOCK_STREAM
        #else
            let kind = Int32(SOCK_STREAM.rawValue)
        #endif
        let descriptor = socket(family, kind, 0)
        guard descriptor >= 0 else { return nil }
        var code: Int32
        if family == AF_INET {
            var address = sockaddr_in()
            (address.sin_family, address.sin_port) = (.init(AF_INET), port.bigEndian)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            code = unsafe withUnsafePointer(to: &address) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    unsafe bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
        } else {
            var address = sockaddr_in6()
            (address.sin6_family, address.sin6_port) = (.init(AF_INET6), port.bigEndian)
            address.sin6_addr = in6addr_loopback
            code = unsafe withUnsafePointer(to: &address) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    unsafe bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in6>.size))
                }
            }
        }
        if code == 0 { return descriptor }
        close(descriptor)
        return nil
    }
}
