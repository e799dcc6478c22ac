import Foundation
import Synchronization

private let drawn = Atomic<Int>(0)

/// A TCP port of 127.0.0.1 that was free a moment ago.
///
/// The port is below the range from which systems choose ports (Linux from 32768 on, others from 49152), so that no
/// connection of another test gets it. Each call, and each process, starts at a different port.
func freePort() throws -> UInt16 {
    for _ in 0..<1000 {
        let number = Int(getpid()) &* 61 &+ drawn.wrappingAdd(1, ordering: .relaxed).oldValue
        let port = UInt16(12_000 + number % 20_000)
        if isFree(port) { return port }
    }
    throw ServerProcess.NotStarted(description: "there is no free port")
}

/// A stream socket.
func streamSocket(_ family: Int32) -> Int32 {
    #if canImport(Darwin)
        socket(family, SOCK_STREAM, 0)
    #else
        socket(family, Int32(SOCK_STREAM.rawValue), 0)
    #endif
}

private func isFree(_ port: UInt16) -> Bool {
    unsafe succeeds(at: port) { unsafe bind($0, $1, $2) }
}

/// Whether `call`, which is `bind` or `connect`, succeeds with a new socket and this port of 127.0.0.1.
func succeeds(at port: UInt16, _ call: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Bool {
    let descriptor = streamSocket(AF_INET)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    address.sin_port = port.bigEndian
    return unsafe withUnsafePointer(to: &address) {
        unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            unsafe call(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
        }
    }
}
