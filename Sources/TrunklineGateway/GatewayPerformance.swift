import Foundation
import TrunklineCore
import TrunklineFoundation
import TrunklineHTTP
import TrunklineLoopback

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// One request through a gateway, from its first part to the last part of its response.
final class GatewayPerformance: Sendable {
    private let gateway: HTTPGateway
    private let exchange: ServerExchange
    /// After the head of the response was sent, a refusal can only abort the response.
    private let hasBegun = Lock(false)
    /// Whether the request holds one of the gateway's places; `nil` after `leave(_:)`.
    private let place: Lock<Bool?>
    private let mayEndAtOnce = 16 * 1024

    enum Outcome: Sendable {
        case answered, refused, failed
    }

    init(_ gateway: HTTPGateway, _ exchange: ServerExchange, hasPlace: Bool) {
        (self.gateway, self.exchange, place) = (gateway, exchange, Lock(hasPlace))
    }

    /// Only the first call has an effect.
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

    /// Releases the place first: a client that has received the last frame finds it free.
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
        // After the body: during the lookup no frames of the client are read, which delays its other requests. It also
        // leaves less time for the name to change.
        try Task.checkCancellation()
        let limit = max(.seconds(1), gateway.options.timeout)
        try await request.checkAddresses(against: gateway.origins, gateway.resolver, within: limit)
        // A request that its client has cancelled has released its place and must not be started.
        try Task.checkCancellation()
        let transfer = gateway.session.begin(request.forwarded, body: body, timeout: gateway.options.timeout)
        // Has no effect on a transfer that was read to its end.
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
        GatewayRefusal(
            .tooLarge,
            "the body exceeds the limit of \(gateway.options.maximumRequestBody) bytes (maximumRequestBody)"
        )
    }

    private func note(_ frame: Frame, _ window: SendWindow) throws {
        guard frame.type == TunnelWire.windowType else { return }
        do throws(FrameError) { window.add(try TunnelWire.window(in: frame)) } catch {
            throw GatewayRefusal(.malformed, "\(error)")
        }
    }

    /// The size of the body must be the `Content-Length`, if there is one.
    private func collect(_ request: GatewayRequest, _ window: SendWindow) async throws -> OriginBody {
        let collector = BodyCollector(limit: gateway.options.maximumRequestBody)
        var (piece, isLast) = (request.request.body, exchange.request.kind != .part)
        while true {
            if !piece.isEmpty {
                do { try await collector.append(Data(piece)) } catch {
                    throw error.code == .dataLengthExceedsMaximum
                        ? tooLarge : GatewayRefusal(.busy, "the body cannot be stored: \(error.code)")
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
            throw GatewayRefusal(
                .malformed,
                "the size of the content is \(collector.count), which differs from Content-Length"
            )
        }
        if collector.count > 0, request.request.method == .get {
            throw GatewayRefusal(.malformed, "a GET request must not have a body")
        }
        return collector.body
    }

    private func answer(_ transfer: OriginTransfer, to request: GatewayRequest, _ window: SendWindow) async throws {
        let response: HTTPURLResponse
        do { response = try await transfer.response } catch {
            throw failure(error, of: transfer, for: request)
        }
        let hasContent = request.request.method != .head && ![204, 304].contains(response.statusCode)
        let (head, length) = try head(of: response, hasContent: hasContent)
        if hasContent, let length, length > gateway.options.maximumResponseBody {
            throw GatewayRefusal(
                .failed,
                "the response of \(length) bytes exceeds \(gateway.options.maximumResponseBody) (maximumResponseBody)",
                .dataLengthExceedsMaximum
            )
        }
        var first = [UInt8]()
        if !hasContent || (length ?? .max) <= mayEndAtOnce {
            let expected = hasContent ? length ?? 0 : 0
            do {
                while let piece = try await transfer.next() {
                    first += piece
                    // With chunks the origin may send more than Content-Length (RFC 9112 §6.3), even without end.
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
            // This task was cancelled, and the canceller reports the reason.
            if error.code == .cancelled { throw CancellationError() }
            try await end(TunnelWire.abort(error.code), .failed)
        }
    }

    private func failure(_ error: URLError, of transfer: OriginTransfer, for request: GatewayRequest) -> any Error {
        if error.code == .cancelled { return CancellationError() }
        // If in doubt, an idempotent request may be sent directly.
        let isDoubtful = error.code == .cannotConnectToHost && request.forwarded.isIdempotent
        let reason = transfer.isUnsent || isDoubtful ? GatewayVerdict.Reason.unreachable : .failed
        return GatewayRefusal(reason, "\(request.origin) failed: \(error.code)", error.code)
    }

    /// Parts have at most half a window: a client that has read everything may hold back an update of almost the other
    /// half.
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

    private func head(of response: HTTPURLResponse, hasContent: Bool) throws -> (Bytes, Int?) {
        var fields = HTTP1Headers()
        // In a fixed order: names may differ only in case.
        for (name, value) in response.allHeaderFields.sorted(by: { "\($0.key)" < "\($1.key)" }) {
            if let name = name as? String, let value = value as? String { fields.append(name, value) }
        }
        fields = fields.endToEnd.filtering { !$0.hasPrefix(TunnelWire.reservedPrefix) }
        let coding = fields["Content-Encoding"]?.lowercased() ?? "identity"
        if hasContent, coding != "identity" {
            fields = fields.filtering { $0 != "content-encoding" && $0 != "content-length" }
        }
        let length = fields["Content-Length"].flatMap { Int(strict: $0, allowingZeros: true) }
        do throws(FrameError) {
            let head = try HTTP1Response(response.statusCode, headers: fields).frame().body
            _ = try HTTP1Opening.response(head)
            return (head, length)
        } catch {
            throw GatewayRefusal(.failed, "the origin's response is not valid HTTP/1.1: \(error)", .badServerResponse)
        }
    }

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
