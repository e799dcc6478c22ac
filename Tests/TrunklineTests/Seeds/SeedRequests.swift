import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// The requests of a simulated life: how they may be retried, and how a server reacts to each.
extension SeedPlan {
    /// The number that a body begins with, which identifies its caller, or `nil` for other requests.
    static func number(in body: Bytes) -> UInt64? { UInt64(String(body).prefix { $0 != " " }) }

    /// How the request of this number, and each of its batch, may be retried.
    func retry(of number: UInt64) -> RetryPolicy {
        switch (number &+ seed) % 5 {
        case 0: .never
        case 1: .idempotent(tries: 3, backoff: Backoff(base: .milliseconds(5), cap: .milliseconds(20)))
        default: .ifUnsent
        }
    }

    /// Echoes `body` in three parts.
    private func parts(of body: Bytes, every delay: Duration) -> Reaction {
        let (first, rest) = (body.prefix(body.count / 3), body.dropFirst(body.count / 3))
        let second = rest.prefix(body.count / 3)
        let last = Frame(.response, body: Bytes(rest.dropFirst(second.count)))
        return .parts([Bytes(first), Bytes(second)], every: delay, then: .reply(last))
    }

    /// Sends an empty part to this request and others, and then an echo.
    private func sharedPart(_ request: Frame, _ delay: Duration, _ random: inout SeededGenerator) -> Reaction {
        let first = request.serial - min(request.serial, .random(in: 0...3, using: &random))
        let serials = matching == .inOrder ? "next" : "\(first)-\(request.serial + .random(in: 0...3, using: &random))"
        let name = Bool.random(using: &random) ? "all" : serials
        let status: UInt32 = hasStatus ? 200 : 0
        let part = Frame(.response, type: request.type, serial: request.serial, status: status, body: Bytes("&\(name)"))
        return .sequence([.frame(part), .after(delay, .echo)])
    }

    /// How a server reacts to `request` of this number. The reaction is the same for each attempt.
    func reaction(to request: Frame, _ number: UInt64) -> Reaction {
        var random = random(1000 + number)
        let delay = Duration.microseconds(Int.random(in: 0...60_000, using: &random))
        // Without serials, a response that is missing or out of order shifts all that follow.
        let hasSerials = matching != .inOrder
        let mayRepeat = matching == .wide || matching == .strict
        if request.type == SeedCalls.oneWayType, !hasSerials { return .noReply }
        switch Int.random(in: 0..<60, using: &random) {
        case 0..<10: return .after(delay, .echo)
        case 40..<46: return parts(of: request.body, every: delay / 4)
        case 10..<14 where mayRepeat: return .twice
        case 14..<18 where mayRepeat: return .sequence([.echo, .after(delay, .echo)])
        case 18..<20 where mayRepeat: return .sequence([.unknownSerial, .echo])
        case 20..<24 where hasSerials: return .noReply
        case 24..<28: return .sequence([.push(Frame(.push, type: 2, body: request.body)), .echo])
        case 28..<30: return .inPieces(of: 5)
        case 30: return .reset
        case 31: return .sequence([.echo, .close])
        case 32: return .closeMidFrame()
        case 33: return .absurdLength
        // A request that is retried would hang the next link as well.
        case 46 where (number &+ seed) % 5 != 1: return .hangMidFrame()
        case 47..<50 where losesFraming && (number &+ seed) % 5 != 1: return .flippingBit(mebibyteBit)
        case 34..<38 where hasStatus: return .status(403, request.body)
        case 50..<54: return sharedPart(request, delay, &random)
        case 38..<40 where matching != .narrow: return .sequence([.ping, .ping, .echo])
        default: return .echo
        }
    }
}
