import TrunklineCore

struct ProbeExchange {
    /// `nil` to discard what is received.
    var codec: LinkCodec?
    fileprivate var pongsLookLikePings = false
    fileprivate var latestPong: Instant?
    fileprivate var received = ReceiveBuffer()
    fileprivate var unsent: [UInt8] = []
    fileprivate(set) var bytesReceived = 0
    /// By kind, without awaited pongs.
    fileprivate(set) var frames: [String: Int] = [:]
    fileprivate(set) var hasHeard = false
    /// `nil` also if the probe closed the link.
    fileprivate(set) var ending: (at: Instant, error: TransportError)?
    fileprivate(set) var malformation: FrameError?
    /// An answer with another serial, received while that of the latest ping was awaited.
    fileprivate(set) var strayPong: (ping: SerialNumber, pong: SerialNumber)?
    fileprivate var pings: Set<SerialNumber> = []
    fileprivate var waiting: Waiting?

    fileprivate struct Waiting {
        let begun: Instant
        let ping: SerialNumber?
        let continuation: CheckedContinuation<ProbedLink.PingOutcome, Never>
    }

    fileprivate static let readsAtOnce = 16
}

extension ProbedLink {
    enum PingOutcome: Sendable {
        case answered(Duration)
        case unanswered
        case ended
    }

    func listen(speaking codec: (any FrameCodec)?) {
        exchange.codec = codec.map { LinkCodec($0) }
        exchange.pongsLookLikePings = (codec as? any HeartbeatCodec)?.pongsLookLikePings ?? false
        transport?.isReading = true
    }

    /// `nil` if the codec has no ping now. Call this on the loop.
    func ping(number: Int, within timeout: Duration) async -> PingOutcome? {
        guard let frame = exchange.codec?.ping(number: UInt64(number)) else { return nil }
        return await wait(for: timeout, afterSending: frame)
    }

    /// Waits for the end of the link. Call this on the loop.
    func watch(for interval: Duration) async { _ = await wait(for: interval) }

    private func wait(for timeout: Duration, afterSending ping: Frame? = nil) async -> PingOutcome {
        let alarm = Alarm { [weak self] in self?.answer(.unanswered) }
        let timer = LoopTimer(target: alarm)
        let outcome: PingOutcome = await withCheckedContinuation { continuation in
            guard transport != nil, exchange.ending == nil, exchange.malformation == nil else {
                return continuation.resume(returning: .ended)
            }
            exchange.waiting = .init(begun: loop.now, ping: ping?.serial, continuation: continuation)
            loop.arm(timer, at: loop.now.advanced(by: timeout))
            guard let ping else { return }
            exchange.strayPong = nil
            exchange.pings.insert(ping.serial)
            send(ping)
        }
        loop.arm(timer, at: nil)
        withExtendedLifetime(alarm) {}
        return outcome
    }

    private func answer(_ outcome: PingOutcome) {
        guard let waiting = exchange.waiting.take() else { return }
        waiting.continuation.resume(returning: outcome)
    }

    private func end(_ error: TransportError) {
        guard exchange.ending == nil else { return }
        exchange.ending = (loop.now, error)
        close()
        answer(.ended)
    }

    private func send(_ frame: Frame) {
        var output = SendBuffer()
        do throws(FrameError) {
            try exchange.codec?.encode(frame, into: &output)
        } catch {
            return end(TransportError(.system, "the ping cannot be encoded: \(error)"))
        }
        exchange.codec?.noteSent(frame)
        exchange.unsent += output.bytes
        flush()
    }

    func flush() {
        while !exchange.unsent.isEmpty {
            let outcome = unsafe exchange.unsent.withUnsafeBytes { unsafe transport?.write($0) ?? .wouldBlock }
            switch outcome {
            case .bytes(let count): exchange.unsent.removeFirst(count)
            case .wouldBlock:
                transport?.awaitsWritable = true
                return
            case .failed(let error): return end(error)
            }
        }
        transport?.awaitsWritable = (transport as? SecuredTransport)?.isHoldingBytes ?? false
    }

    func readAll() {
        for _ in 0..<ProbeExchange.readsAtOnce {
            guard let transport else { return }
            let (count, _, outcome) = transport.read(into: &exchange.received)
            exchange.bytesReceived += count
            decode()
            switch outcome {
            case .bytes: continue
            case .wouldBlock: return
            case .end: return end(TransportError(.closedByPeer, "the server closed the connection"))
            case .failed(let error): return end(error)
            }
        }
        loop.scheduleInNextTurn(LoopClosure { [weak self] in self?.readAll() })
    }

    private func decode() {
        // Taken out, because the codec and its input must not be changed through the same property at once.
        guard exchange.malformation == nil, var codec = exchange.codec.take() else {
            if exchange.bytesReceived > 0 { exchange.hasHeard = true }
            exchange.received = ReceiveBuffer()
            return
        }
        var frames: [Frame] = []
        var malformation: FrameError?
        do throws(FrameError) {
            try codec.decodeAll(&exchange.received, into: &frames)
        } catch {
            malformation = error
        }
        exchange.codec = codec
        for frame in frames { take(frame) }
        guard let malformation else { return }
        exchange.malformation = malformation
        answer(.ended)
    }

    private func take(_ frame: Frame) {
        exchange.hasHeard = true
        let looksLikePong = frame.kind == .ping && exchange.pongsLookLikePings
        if let waiting = exchange.waiting, let ping = waiting.ping, frame.kind == .pong || looksLikePong {
            // As a client does: the answer repeats the serial, or has none.
            if frame.serial == ping || frame.serial == 0 { return answer(.answered(loop.now.since(waiting.begun))) }
            // What looks like an answer may be a ping of the server, with a serial of its own.
            let isAnswer = frame.kind == .pong || exchange.pings.contains(frame.serial)
            if isAnswer, exchange.strayPong == nil { exchange.strayPong = (ping, frame.serial) }
        }
        exchange.frames[frame.kind == .goAway ? "go_away" : "\(frame.kind)", default: 0] += 1
        guard frame.kind == .ping, let pong = exchange.codec?.pong(answering: frame) else { return }
        // As a client does: two sides that take each other's answers for pings would answer for ever.
        if exchange.pongsLookLikePings {
            if let latest = exchange.latestPong, loop.now.since(latest) < .seconds(1) { return }
            exchange.latestPong = loop.now
        }
        send(pong)
    }
}

final class Alarm: TimerTarget {
    private let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) { self.body = body }

    func timerFired() { body() }
}
