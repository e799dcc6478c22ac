import Foundation
import Trunkline
import TrunklineFoundation
import TrunklineHTTP
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// One request through a gateway, from its first piece to the last of its answer.
final class GatewayPerformance: Sendable {
    private let gateway: HTTPGateway
    private let exchange: ServerExchange
    /// Whether the head of the answer is on its way: a refusal can no longer be told in words.
    private let hasBegun = Lock(false)
    /// Whether it has one of the gateway's places; `nil` when it has left.
    private let place: Lock<Bool?>
    private let mayEndAtOnce = 16 * 1024

    enum Outcome: Sendable {
        case answered, refused, failed
    }

    init(_ gateway: HTTPGateway, _ exchange: ServerExchange, hasPlace: Bool) {
        (self.gateway, self.exchange, place) = (gateway, exchange, Lock(hasPlace))
    }

    /// Gives its place to the next one, and counts what became of it. Only the first call counts.
    func leave(_ outcome: Outcome) {
        let hadPlace = place.withLock { place in
            defer { place = nil }
            return place
        }
        guard let hadPlace else { return }
        gateway.counters.withLock { counters in
            if hadPlace { counters.underWay -= 1 }
            switch outcome {
            case .answered: counters.answered += 1
            case .refused: counters.refused += 1
            case .failed: counters.failed += 1
            }
        }
    }

    /// Sends the last frame, after it has left: who has it and asks again finds the place free.
    private func end(_ frame: Frame, _ outcome: Outcome) async throws {
        leave(outcome)
        try await exchange.reply(frame)
    }

    func run() async throws {
        let request = try GatewayRequest(exchange.request.body)
        if let length = request.contentLength, length > gateway.options.maximumRequestBody { throw tooLarge }
        try request.check(against: gateway.origins)
        let window = SendWindow(request.window)
        let body = try await collect(request, window)
        // After the body: while a name is looked up nobody takes what its client sends, and for a connection that is read no
        // more no request on it gets an answer. Also there is less time for the name to lead elsewhere.
        try Task.checkCancellation()
        let limit = max(.seconds(1), gateway.options.timeout)
        try await request.checkAddresses(against: gateway.origins, gateway.resolver, within: limit)
        // What its client has given up has no place any more, and must not be begun.
        try Task.checkCancellation()
        let transfer = gateway.session.begin(request.forwarded, body: body, timeout: gateway.options.timeout)
        // Without effect on one that has been read to its end.
        defer { transfer.cancel() }
        try await withThrowingTaskGroup(of: Bool.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                while let frame = try await self.exchange.next() { try self.note(frame, window) }
                return false
            }
            group.addTask {
                try await self.answer(transfer, to: request, window)
                return true
            }
            while let isAnswered = try await group.next(), !isAnswered {}
        }
    }

    private var tooLarge: GatewayRefusal {
        GatewayRefusal(.tooLarge, "a body of more than \(gateway.options.maximumRequestBody) bytes")
    }

    private func note(_ frame: Frame, _ window: SendWindow) throws {
        guard frame.type == TunnelWire.windowType else { return }
        do throws(FrameError) { window.add(try TunnelWire.window(in: frame)) } catch {
            throw GatewayRefusal(.malformed, "\(error)")
        }
    }

    // MARK: The request

    /// Takes in the body, which must be as long as the head says.
    private func collect(_ request: GatewayRequest, _ window: SendWindow) async throws -> OriginBody {
        let collector = BodyCollector(limit: gateway.options.maximumRequestBody)
        var (piece, isLast) = (request.request.body, exchange.request.kind != .part)
        while true {
            if !piece.isEmpty {
                do { try await collector.append(Data(piece)) } catch {
                    throw error.code == .dataLengthExceedsMaximum
                        ? tooLarge : GatewayRefusal(.busy, "the body cannot be kept: \(error.code)")
                }
            }
            if isLast { break }
            guard let frame = try await exchange.next() else { throw CancellationError() }
            guard frame.type != TunnelWire.windowType else {
                try note(frame, window)
                piece = Bytes()
                continue
            }
            (piece, isLast) = (frame.body, frame.kind != .part)
        }
        guard request.contentLength.map({ $0 == collector.count }) ?? true else {
            throw GatewayRefusal(.malformed, "\(collector.count) bytes of content are not what Content-Length says")
        }
        if collector.count > 0, request.request.method == .get {
            throw GatewayRefusal(.malformed, "a GET cannot have a body here")
        }
        return collector.body
    }

    // MARK: The answer

    private func answer(_ transfer: OriginTransfer, to request: GatewayRequest, _ window: SendWindow) async throws {
        let response: HTTPURLResponse
        do { response = try await transfer.response } catch {
            throw failure(error, of: transfer, for: request)
        }
        let hasContent = request.request.method != .head && ![204, 304].contains(response.statusCode)
        let (head, length) = try head(of: response, hasContent: hasContent)
        if hasContent, let length, length > gateway.options.maximumResponseBody {
            throw GatewayRefusal(.failed, "an answer of \(length) bytes", .dataLengthExceedsMaximum)
        }
        var first = [UInt8]()
        // A short answer is one frame.
        if !hasContent || (length ?? .max) <= mayEndAtOnce {
            let expected = hasContent ? length ?? 0 : 0
            do {
                while let piece = try await transfer.next() {
                    first += piece
                    // With chunks the origin may send more than it says (RFC 9112 §6.3), and without end.
                    guard first.count <= expected else { throw URLError(.badServerResponse) }
                }
            } catch let error as URLError {
                throw failure(error, of: transfer, for: request)
            }
            begin()
            return try await end(
                Frame(.response, type: TunnelWire.messageType, body: Bytes(Array(head) + first)),
                .answered
            )
        }
        begin()
        try await exchange.part(Frame(.part, type: TunnelWire.pieceType, body: head))
        do {
            try await send(transfer, window, in: min(TunnelWire.pieceSize, request.window / 2))
        } catch let error as URLError {
            // By whoever cancelled this task: it knows why, and says so.
            if error.code == .cancelled { throw CancellationError() }
            try await end(TunnelWire.abort(error.code), .failed)
        }
    }

    private func failure(_ error: URLError, of transfer: OriginTransfer, for request: GatewayRequest) -> any Error {
        // By whoever cancelled this task: it knows why, and says so.
        if error.code == .cancelled { return CancellationError() }
        // What may be carried out twice may be sent another way when in doubt.
        let isDoubtful = error.code == .cannotConnectToHost && request.forwarded.isIdempotent
        let reason = transfer.isUnsent || isDoubtful ? GatewayVerdict.Reason.unreachable : .failed
        return GatewayRefusal(reason, "\(request.origin) failed: \(error.code)", error.code)
    }

    /// Pieces of half a window at most: a client that has taken everything may owe us word of a little less than the other half.
    private func send(_ transfer: OriginTransfer, _ window: SendWindow, in size: Int) async throws {
        var count = 0
        while let data = try await transfer.next() {
            count += data.count
            guard count <= gateway.options.maximumResponseBody else { throw URLError(.dataLengthExceedsMaximum) }
            var rest = data[...]
            while !rest.isEmpty {
                let piece = Bytes(rest.prefix(size))
                rest = rest.dropFirst(piece.count)
                try await window.take(TunnelWire.cost(of: piece.count))
                if rest.isEmpty, transfer.isAtEnd {
                    return try await end(Frame(.response, type: TunnelWire.messageType, body: piece), .answered)
                }
                try await exchange.part(Frame(.part, type: TunnelWire.pieceType, body: piece))
            }
        }
        try await end(Frame(.response, type: TunnelWire.messageType), .answered)
    }

    private func begin() { hasBegun.withLock { $0 = true } }

    /// The head as it travels, and how long its content will be, if that is known.
    private func head(of response: HTTPURLResponse, hasContent: Bool) throws -> (Bytes, Int?) {
        var fields = HTTP1Headers()
        // In an order that does not change: names may differ in the size of their letters alone.
        for (name, value) in response.allHeaderFields.sorted(by: { "\($0.key)" < "\($1.key)" }) {
            if let name = name as? String, let value = value as? String { fields.append(name, value) }
        }
        fields = fields.endToEnd.filtering { !$0.hasPrefix(TunnelWire.reservedPrefix) }
        let coding = fields["Content-Encoding"]?.lowercased() ?? "identity"
        if hasContent, coding != "identity" {
            fields = fields.filtering { $0 != "content-encoding" && $0 != "content-length" }
        }
        let length = fields["Content-Length"].flatMap { Int($0) }
        do throws(FrameError) {
            let head = try HTTP1Response(response.statusCode, headers: fields).frame().body
            _ = try HTTP1Opening.response(head)
            return (head, length)
        } catch {
            throw GatewayRefusal(.failed, "the origin's answer is no HTTP/1.1: \(error)", .badServerResponse)
        }
    }

    /// Says why there is no answer.
    func refuse(_ refusal: GatewayRefusal) async throws {
        let verdict = refusal.verdict
        let outcome = [.failed, .unreachable].contains(verdict.reason) ? Outcome.failed : .refused
        if hasBegun.withLock({ $0 }) {
            return try await end(TunnelWire.abort(verdict.code ?? .badServerResponse), outcome)
        }
        let text = Bytes(refusal.message.asMessage + "\n")
        let fields: HTTP1Headers = [
            TunnelWire.gatewayField: verdict.text, "Content-Type": "text/plain; charset=utf-8",
            "Content-Length": "\(text.count)",
        ]
        var frame = try HTTP1Response(verdict.status, headers: fields, body: text).frame()
        frame.type = TunnelWire.messageType
        frame.status = 0
        try await end(frame, outcome)
    }
}
