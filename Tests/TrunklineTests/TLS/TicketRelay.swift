import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO

/// A relay before a TLS server that does not bear a ClientHello with a session ticket, as some middleboxes and some servers
/// after an update do not. It passes on everything else.
actor TicketRelay: ListenerHandler, TransportHandler {
    /// What it does with a ClientHello that carries a ticket.
    enum Conduct: Sendable {
        /// Resets the connection.
        case resets
        /// Closes the connection.
        case closes
        /// Answers with a fatal alert of this number, and closes.
        case alerts(UInt8)
        /// Answers with something that is not TLS.
        case babbles
        /// Answers nothing.
        case isSilent
        /// Passes it on.
        case bears
    }

    private nonisolated let loop: any EventLoop
    private let server: UInt16
    private var conduct: Conduct
    private var listener: (any Listener)?
    private var sides: [UInt64: Side] = [:]
    /// The number of ClientHello messages with a ticket, and without one.
    private(set) var (withTicket, withoutTicket) = (0, 0)

    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    private struct Side {
        let transport: any Transport
        let isClient: Bool
        var other: UInt64?
        var isConnected = true
        var output: [UInt8] = []
    }

    init(before server: UInt16, _ conduct: Conduct, on loop: any EventLoop = EventLoops.shared.next()) {
        (self.server, self.conduct, self.loop) = (server, conduct, loop)
    }

    /// Starts to listen on 127.0.0.1, and returns the endpoint.
    func listen() throws -> Endpoint {
        let listener = try loop.listen(on: .loopback(port: 0), handler: self)
        self.listener = listener
        return .host("127.0.0.1", port: listener.address.port ?? 0)
    }

    func set(_ conduct: Conduct) { self.conduct = conduct }

    func stop() {
        listener?.close()
        listener = nil
        for side in sides.values { side.transport.close() }
        sides = [:]
    }

    nonisolated func accepted(_ transport: sending any Transport) -> any TransportHandler {
        // Safe: created and used only on the event loop.
        nonisolated(unsafe) let near = transport
        return assumeIsolated { relay in
            let far = relay.loop.connect(
                to: .loopback(port: relay.server),
                options: SocketOptions(),
                handler: relay
            )
            unsafe relay.sides[near.id] = unsafe Side(transport: near, isClient: true, other: far.id)
            relay.sides[far.id] = unsafe Side(transport: far, isClient: false, other: near.id, isConnected: false)
            unsafe near.isReading = true
            return relay
        }
    }

    nonisolated func transport(_ id: UInt64, did event: TransportEvent) { assumeIsolated { $0.handle(event, of: id) } }

    private func handle(_ event: TransportEvent, of id: UInt64) {
        switch event {
        case .connected:
            sides[id]?.isConnected = true
            sides[id]?.transport.isReading = true
            flush(id)
        case .connectFailed: end(id) { $0.close() }
        case .readable: read(id)
        case .writable: flush(id)
        case .opening, .securing: break
        }
    }

    private func read(_ id: UInt64) {
        var buffer = [UInt8](repeating: 0, count: 16 * 1024)
        while let side = sides[id], let other = side.other {
            switch unsafe buffer.withUnsafeMutableBytes({ unsafe side.transport.read(into: $0) }) {
            case .bytes(let count):
                if side.isClient, !passes(Array(buffer[..<count]), of: id) { return }
                sides[other]?.output += buffer[..<count]
                flush(other)
            case .wouldBlock: return
            case .end, .failed: return end(id) { $0.close() }
            }
        }
    }

    /// Whether `bytes`, which a client has sent at once, are passed on.
    private func passes(_ bytes: [UInt8], of id: UInt64) -> Bool {
        guard let hasTicket = Self.hasTicket(bytes) else { return true }
        guard hasTicket else {
            withoutTicket += 1
            return true
        }
        withTicket += 1
        switch conduct {
        case .bears: return true
        case .resets: end(id) { $0.reset() }
        case .closes: end(id) { $0.close() }
        case .isSilent: sides[id]?.transport.isReading = false
        case .babbles:
            sides[id]?.output = Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)
            flush(id)
        case .alerts(let number):
            sides[id]?.output = [21, 3, 3, 0, 2, 2, number]
            flush(id)
            end(id) { $0.close() }
        }
        return false
    }

    /// Whether the ClientHello (RFC 8446 §4.1.2) carries a ticket or a session ID of TLS 1.2 to resume; `nil` if it is none.
    private static func hasTicket(_ bytes: [UInt8]) -> Bool? {
        guard bytes.count > 44, bytes[0] == 22, bytes[5] == 1 else { return nil }
        func number(_ place: Int) -> Int { Int(bytes[place]) << 8 | Int(bytes[place + 1]) }
        var place = 43
        place += 1 + Int(bytes[place])  // the session ID
        place += 2 + number(place)  // the cipher suites
        place += 1 + Int(bytes[place])  // the compression methods
        place += 2
        while place + 4 <= bytes.count {
            let (type, size) = (number(place), number(place + 2))
            if type == 41 || type == 35 && size > 0 { return true }
            place += 4 + size
        }
        return false
    }

    private func flush(_ id: UInt64) {
        guard let side = sides[id], side.isConnected else { return }
        while let side = sides[id], !side.output.isEmpty {
            switch unsafe side.output.withUnsafeBytes({ unsafe side.transport.write($0) }) {
            case .bytes(let count): sides[id]?.output.removeFirst(count)
            case .wouldBlock: return side.transport.awaitsWritable = true
            case .failed: return end(id) { $0.close() }
            }
        }
        side.transport.awaitsWritable = false
    }

    /// Ends both sides: that of `id` with `how`.
    private func end(_ id: UInt64, _ how: (any Transport) -> Void) {
        guard let side = sides.removeValue(forKey: id) else { return }
        how(side.transport)
        if let other = side.other { sides.removeValue(forKey: other)?.transport.close() }
    }
}
