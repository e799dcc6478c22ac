import Trunkline

@testable import TrunklineLoopback
@testable import TrunklineTesting

/// A proxy for tests, on an event loop: the server's side of SOCKS 5 and of CONNECT, and what a bad proxy does.
actor TestProxy: ListenerHandler, TransportHandler {
    /// What it does with a connection.
    enum Conduct: Sendable {
        /// Connects to the server.
        case serves
        /// Answers every request with this reply of SOCKS, or status of HTTP.
        case refuses(Int)
        /// Answers nothing.
        case isSilent
        /// Connects to the server after this time.
        case delays(Duration)
        /// Closes the connection after this many bytes of its answers.
        case cutsOff(after: Int)
        /// Answers with these bytes.
        case says([UInt8])
    }

    private nonisolated let loop: any EventLoop
    private let kind: Proxy.Kind
    private let account: (username: String, password: String)?
    private var conduct = Conduct.serves
    /// Whether it writes its answers one byte at a time.
    private let isSlow: Bool
    /// Whether its answer waits for the first bytes of the server, which follow it in the same write.
    private var joinsGreeting = false
    private var listener: (any Listener)?
    private var sides: [UInt64: Side] = [:]
    /// What clients have asked for, in order.
    private(set) var targets: [String] = []
    /// How many clients have authenticated.
    private(set) var logins = 0
    private(set) var refusedLogins = 0

    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    private enum Stage { case greeting, login, request, relaying }

    /// One side of a connection through the proxy.
    private struct Side {
        let transport: any Transport
        var stage = Stage.greeting
        /// The other side; `nil` before the proxy connects to the server.
        var other: UInt64?
        var isConnected = true
        var input: [UInt8] = []
        var output: [UInt8] = []
        /// The number of bytes of answers that were written.
        var said = 0
        var hasEnded = false
        var lookup: NameLookup?
    }

    init(
        _ kind: Proxy.Kind,
        on loop: any EventLoop,
        account: (username: String, password: String)? = nil,
        isSlow: Bool = false
    ) {
        (self.kind, self.loop, self.account, self.isSlow) = (kind, loop, account, isSlow)
    }

    /// Starts to listen, and returns the port.
    @discardableResult
    func listen(on address: SocketAddress) throws -> UInt16 {
        let listener = try loop.listen(on: address, handler: self)
        self.listener = listener
        return listener.address.port ?? 0
    }

    func set(_ conduct: Conduct) { self.conduct = conduct }
    func joinGreeting() { joinsGreeting = true }

    /// Stops, and cuts every connection off.
    func stop() {
        listener?.close()
        listener = nil
        for side in sides.values { side.transport.close() }
        sides = [:]
    }

    /// Resets every connection.
    func resetAll() {
        for side in sides.values { side.transport.reset() }
        sides = [:]
    }

    // MARK: Events

    nonisolated func accepted(_ transport: sending any Transport) -> any TransportHandler {
        // Safe: created and used only on the event loop.
        nonisolated(unsafe) let near = transport
        return assumeIsolated { proxy in
            unsafe proxy.sides[near.id] = unsafe Side(transport: near)
            unsafe near.isReading = true
            return proxy
        }
    }

    nonisolated func transport(_ id: UInt64, did event: TransportEvent) { assumeIsolated { $0.handle(event, of: id) } }

    private func handle(_ event: TransportEvent, of id: UInt64) {
        switch event {
        case .connected:
            sides[id]?.isConnected = true
            guard let client = sides[id]?.other else { return }
            sides[client]?.stage = .relaying
            let answer =
                kind == .socks5
                ? [5, 0, 0, 1, 0, 0, 0, 0, 0, 0] : Array("HTTP/1.1 200 OK\r\nVia: 1.1 p\r\n\r\n".utf8)
            sides[id]?.transport.isReading = true
            passOn(from: client)
            guard joinsGreeting else { return say(answer, to: client) }
            // The server speaks first: its bytes follow the answer in the same write.
            sides[client]?.output += answer
        case .connectFailed:
            guard let client = sides[id]?.other else { return close(id) }
            sides[client]?.other = nil
            sides[id] = nil
            refuse(kind == .socks5 ? 5 : 502, client)
        case .readable: read(id)
        case .writable: flush(id)
        case .opening, .securing: break
        }
    }

    private func read(_ id: UInt64) {
        var buffer = [UInt8](repeating: 0, count: 16 * 1024)
        while let side = sides[id] {
            switch unsafe buffer.withUnsafeMutableBytes({ unsafe side.transport.read(into: $0) }) {
            case .bytes(let count): sides[id]?.input += buffer[..<count]
            case .wouldBlock: return advance(id)
            case .end, .failed:
                sides[id]?.hasEnded = true
                side.transport.isReading = false
                return advance(id)
            }
        }
    }

    private func advance(_ id: UInt64) {
        guard let side = sides[id] else { return }
        if side.stage == .relaying { return passOn(from: id) }
        if side.hasEnded { return close(id) }
        switch conduct {
        case .isSilent: return
        case .says(let bytes):
            guard side.said == 0 else { return }
            return say(bytes, to: id)
        default: break
        }
        kind == .socks5 ? readSOCKS(id) : readHTTP(id)
    }

    // MARK: SOCKS

    private func readSOCKS(_ id: UInt64) {
        while let side = sides[id] {
            let input = side.input
            switch side.stage {
            case .greeting:
                guard input.count >= 2, input.count >= 2 + Int(input[1]) else { return }
                let methods = input[2..<2 + Int(input[1])]
                sides[id]?.input.removeFirst(2 + Int(input[1]))
                let method: UInt8 = account == nil ? 0 : 2
                guard input[0] == 5, methods.contains(method) else {
                    refusedLogins += 1
                    return say([5, 0xFF], to: id)
                }
                sides[id]?.stage = account == nil ? .request : .login
                say([5, method], to: id)
            case .login:
                guard input.count >= 2, input.count >= 3 + Int(input[1]) else { return }
                let user = input[2..<2 + Int(input[1])]
                let size = Int(input[2 + Int(input[1])])
                guard input.count >= 3 + user.count + size else { return }
                let password = input[3 + user.count..<3 + user.count + size]
                sides[id]?.input.removeFirst(3 + user.count + size)
                let isKnown = account.map {
                    Array($0.username.utf8) == Array(user) && Array($0.password.utf8) == Array(password)
                }
                guard isKnown == true else {
                    refusedLogins += 1
                    return say([1, 1], to: id)
                }
                logins += 1
                sides[id]?.stage = .request
                say([1, 0], to: id)
            case .request:
                guard input.count >= 5 else { return }
                let size = input[3] == 1 ? 4 : input[3] == 4 ? 16 : 1 + Int(input[4])
                guard input.count >= 6 + size else { return }
                sides[id]?.input.removeFirst(6 + size)
                let port = UInt16(input[4 + size]) << 8 | UInt16(input[5 + size])
                let address = Array(input[4..<4 + size])
                let host =
                    switch input[3] {
                    case 1: SocketAddress.ipv4(address, port: port).host
                    case 4: SocketAddress.ipv6(address, port: port, scope: 0).host
                    default: String(decoding: address.dropFirst(), as: UTF8.self)
                    }
                return connect(id, to: host, port)
            case .relaying: return
            }
        }
    }

    // MARK: HTTP

    private func readHTTP(_ id: UInt64) {
        guard let side = sides[id], side.stage == .greeting,
            let end = String(decoding: side.input, as: UTF8.self).firstRange(of: "\r\n\r\n")
        else { return }
        let text = String(decoding: side.input, as: UTF8.self)[..<end.lowerBound]
        sides[id]?.input.removeFirst(text.utf8.count + 4)
        let lines = text.split(separator: "\r\n")
        let words = lines[0].split(separator: " ")
        guard words.count == 3, words[0] == "CONNECT", let colon = words[1].lastIndex(of: ":"),
            let port = UInt16(words[1][words[1].index(after: colon)...])
        else { return refuse(405, id) }
        if account != nil {
            // "edge:se:cret" in base 64.
            guard lines.contains("Proxy-Authorization: Basic ZWRnZTpzZTpjcmV0") else {
                refusedLogins += 1
                return refuse(407, id)
            }
            logins += 1
        }
        sides[id]?.stage = .request
        connect(id, to: words[1][..<colon].filter { $0 != "[" && $0 != "]" }, port)
    }

    // MARK: The server

    private func connect(_ id: UInt64, to host: String, _ port: UInt16, isDelayed: Bool = false) {
        if !isDelayed { targets.append("\(host):\(port)") }
        if case .refuses(let reply) = conduct { return refuse(reply, id) }
        if case .delays(let time) = conduct {
            conduct = .serves
            return later(time) { $0.connect(id, to: host, port, isDelayed: true) }
        }
        if let address = literalAddress(host, port: port) { return connect(id, to: address) }
        sides[id]?.lookup = loop.resolve(host, port: port, family: .ipv4) { [weak self] answer in
            self?.assumeIsolated { proxy in
                guard case .success(let addresses) = answer, let address = addresses.first else {
                    return proxy.refuse(proxy.kind == .socks5 ? 4 : 502, id)
                }
                proxy.connect(id, to: address)
            }
        }
    }

    private func connect(_ id: UInt64, to address: SocketAddress) {
        guard sides[id] != nil else { return }
        let server = loop.connect(to: address, options: SocketOptions(), handler: self)
        var side = Side(transport: server, stage: .relaying, other: id)
        side.isConnected = false
        sides[server.id] = side
        sides[id]?.other = server.id
    }

    private func later(_ time: Duration, _ body: @escaping @Sendable (isolated TestProxy) -> Void) {
        let action = TimedAction { [weak self] in self?.assumeIsolated { body($0) } }
        let timer = LoopTimer(target: action)
        timers.append((timer, action))
        loop.arm(timer, at: loop.now.advanced(by: time))
    }
    private var timers: [(LoopTimer, TimedAction)] = []
    private final class TimedAction: TimerTarget {
        private let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
        func timerFired() { body() }
    }

    private func refuse(_ reply: Int, _ id: UInt64) {
        say(
            kind == .socks5
                ? [5, UInt8(reply), 0, 1, 0, 0, 0, 0, 0, 0]
                : Array("HTTP/1.1 \(reply) Because\r\nContent-Length: 0\r\n\r\n".utf8),
            to: id
        )
    }

    // MARK: Bytes

    /// Answers the client itself.
    private func say(_ bytes: [UInt8], to id: UInt64) {
        guard let side = sides[id] else { return }
        if case .cutsOff(let count) = conduct, side.said + bytes.count >= count {
            sides[id]?.output += bytes.prefix(max(0, count - side.said))
            flush(id)
            return close(id)
        }
        sides[id]?.said += bytes.count
        if isSlow {
            for byte in bytes {
                sides[id]?.output.append(byte)
                flush(id)
            }
        } else {
            sides[id]?.output += bytes
            flush(id)
        }
    }

    private func passOn(from id: UInt64) {
        guard let side = sides[id], let other = side.other, sides[other]?.isConnected == true else { return }
        sides[other]?.output += side.input
        sides[id]?.input = []
        flush(other)
    }

    private func flush(_ id: UInt64) {
        while let side = sides[id], !side.output.isEmpty {
            switch unsafe side.output.withUnsafeBytes({ unsafe side.transport.write($0) }) {
            case .bytes(let count): sides[id]?.output.removeFirst(count)
            case .wouldBlock: return side.transport.awaitsWritable = true
            case .failed: return close(id)
            }
        }
        sides[id]?.transport.awaitsWritable = false
        if let other = sides[id]?.other, let from = sides[other], from.hasEnded, from.input.isEmpty { close(id) }
    }

    private func close(_ id: UInt64) {
        guard let side = sides.removeValue(forKey: id) else { return }
        side.transport.close()
        if let other = side.other { sides.removeValue(forKey: other)?.transport.close() }
    }
}
