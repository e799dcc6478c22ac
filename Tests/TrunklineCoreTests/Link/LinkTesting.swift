@testable import TrunklineCore
@testable import TrunklineIO

/// Encodes a frame as its body. A body that begins with `!` cannot be encoded.
struct BodyCodec: FrameCodec {
    var matching: ResponseMatching { .inOrder }
    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { nil }
    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        output.append(frame.body)
        if frame.body.first == UInt8(ascii: "!") { throw FrameError(.malformed, "begins with !") }
    }
}

extension OutboundQueue {
    /// Lets the socket take up to `limit` encoded bytes, and returns them.
    mutating func write(upTo limit: Int, _ reported: inout [RequestID]) -> [UInt8] {
        let taken = unsafe withUnwritten { pieces in
            Array(unsafe pieces.reduce(into: [UInt8]()) { unsafe $0 += Array($1) }.prefix(limit))
        }
        didWrite(taken.count, reporting: &reported)
        return taken
    }
}

extension InFlightTable {
    /// Inserts the request with this number, whose frame is at the position with the same number.
    mutating func insert(number: UInt64, type: UInt32 = 0) -> SerialNumber? {
        insert(RequestID(number), type: type, at: OutboundPosition(number))
    }
}

extension InFlightTable.Match {
    /// The ID of the request, or the kind of match.
    var text: String {
        switch self {
        case .request(let entry, _): "\(entry.id)"
        case .late: "late"
        case .unknown: "unknown"
        }
    }
}

extension InFlightTable.Answered {
    /// The ID of the request, or the kind of match.
    var text: String {
        switch self {
        case .request(let id, _): "\(id)"
        case .late: "late"
        case .cancelFrame: "cancel frame"
        case .again: "again"
        case .unknown: "unknown"
        }
    }
}

extension LinkMachine.Cancellation {
    var text: String {
        switch self {
        case .none: "none"
        case .notSent: "not sent"
        case .sent: "sent"
        case .awaited(let serial, let type): "awaited: serial \(serial), type \(type)"
        }
    }
}

/// A link with a socket that takes as many bytes as the test wants.
struct TestedLink {
    var machine: LinkMachine
    private var codec: any FrameCodec = BodyCodec()
    private(set) var places: [RequestID: PlaceOnLink] = [:]
    /// The frames that were reported as written.
    var reported: [RequestID] = []
    private(set) var refused: [OutboundQueue.Refusal] = []

    init(_ matching: ResponseMatching = .serial(50...99), firstSerial: SerialNumber? = nil) {
        machine = LinkMachine(session: 1, matching: matching, quarantine: .seconds(60), firstSerial: firstSerial)
    }

    /// Sends the request, or one-way message, `id`.
    @discardableResult
    mutating func send(
        _ id: RequestID,
        _ body: Bytes = "ab",
        isMessage: Bool = false,
        holdsOthers: Bool = false
    ) -> PlaceOnLink? {
        let place = machine.send(
            id,
            Frame(.request, type: 7, body: body),
            expectsResponse: !isMessage,
            holdsOthers: holdsOthers
        )
        if let place { places[id] = place }
        return place
    }

    /// Lets the socket take up to `limit` encoded bytes once, and returns them.
    @discardableResult
    mutating func writeOnce(upTo limit: Int) -> [UInt8] {
        refused += machine.encode(using: &codec)
        let taken = unsafe machine.outbound.withUnwritten { pieces in
            Array(unsafe pieces.reduce(into: [UInt8]()) { unsafe $0 += Array($1) }.prefix(limit))
        }
        machine.didWrite(taken.count, reporting: &reported)
        return taken
    }

    /// Lets the socket take up to `limit` bytes.
    @discardableResult
    mutating func write(_ limit: Int = .max) -> String {
        var bytes: [UInt8] = []
        while bytes.count < limit, !machine.outbound.isEmpty { bytes += writeOnce(upTo: limit - bytes.count) }
        return String(decoding: bytes, as: UTF8.self)
    }

    mutating func cancel(_ id: RequestID, isTimeout: Bool = false, at now: Instant = at(0)) -> String {
        places[id].map { machine.cancel(id, at: $0, isTimeout: isTimeout, now: now).text } ?? "never sent"
    }

    func hasStarted(_ id: RequestID) -> Bool? { places[id].map { machine.hasStarted(id, at: $0) } }

    /// Whether the request or message `id` is on the link and was not abandoned.
    func holds(_ id: RequestID) -> Bool { machine.ids.contains(id) }

    /// What a response with `serial` matches.
    mutating func answer(_ serial: SerialNumber = 0) -> String { machine.answer(serial).text }

    /// The serial of the request `id` on the wire; 0 if it is a message.
    func serial(_ id: RequestID) -> SerialNumber {
        if case .response(let number)? = places[id] { number } else { 0 }
    }
}

extension LinkMachine {
    /// Judges the link: see `judge`. Returns whether it is spent, and not why.
    mutating func judged(counts: Bool, maximumStalls: Int?) -> (timeouts: Int, isSpent: Bool) {
        let verdict = judge(counts: counts, maximumStalls: maximumStalls)
        return (verdict.timeouts, verdict.spent != nil)
    }
}
