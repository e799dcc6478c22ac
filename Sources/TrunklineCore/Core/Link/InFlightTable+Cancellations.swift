/// Numbers that no request in flight holds: of cancel frames after which the server sends something other than the
/// response (see `CancelKind`), and of requests that were sent twice.
extension InFlightTable {
    /// Most protocols have none. These numbers take no place in flight.
    struct Cancellations: EmptyInitializable, Sendable {
        var frames: [SerialNumber: CancelFrame] = [:]
        /// The abandoned requests whose numbers become free only with the answer to their cancel frames.
        var flushed: Set<SerialNumber> = []
        /// Until the quarantine of these numbers ends, they are used last.
        var released = Deque<Released>()
        var repeated: Set<SerialNumber> = []
        /// Answered repeated requests, until no other answer can come, and those whose time has not begun.
        var echoes = Deque<(number: SerialNumber, until: Instant)>()
        var newEchoes: [SerialNumber] = []
        /// The count of numbers that are held without a place in flight.
        var count = 0

        /// `distantPast` if the time of a hold has not begun.
        @inline(never)
        func nextEnd(before quarantineEnd: Instant?) -> Instant? {
            if !newEchoes.isEmpty { return .distantPast }
            return [quarantineEnd, released.first?.until, echoes.first?.until].compactMap { $0 }.min()
        }
    }

    /// A number that is free, apart from a response that may have crossed the cancel frame.
    struct Released: Sendable {
        let number: SerialNumber
        let until: Instant
        /// The position of the cancel frame, if the number is its own.
        let position: OutboundPosition?
    }

    struct CancelFrame: Sendable {
        let position: OutboundPosition
        let until: Instant
        /// The request, if its number is held until this frame is answered.
        let flushes: SerialNumber?
    }

    enum CancelSerial: Sendable, Equatable {
        /// That of the request, or whatever the codec has set.
        case ofRequest
        case own(SerialNumber)
        /// Every serial is held, so the frame cannot be sent.
        case none
    }

    mutating func noteCancelFrame(
        for number: SerialNumber,
        _ kind: CancelKind,
        at position: OutboundPosition,
        holdingUntil instant: Instant
    ) -> CancelSerial {
        guard !isInOrder, kind != .answered else { return .ofRequest }
        // If the request was answered meanwhile, its number may be that of another one.
        var target: (id: RequestID, type: UInt32)?
        if case .abandoned(let id, let type, _)? = slots[number] { target = (id, type) }
        guard kind.hasOwnSerial else {
            if let target { release(number, of: target.id, type: target.type, until: instant) }
            return .ofRequest
        }
        guard let own = takeNumber() else { return .none }
        if kind.isAnswered {
            let flushed = kind == .flush && target != nil ? number : nil
            if let flushed { cancellations.flushed.insert(flushed) }
            slots.insert(.cancelFrame(target?.id ?? RequestID(0)), for: own)
            cancellations.frames[own] = CancelFrame(position: position, until: instant, flushes: flushed)
            cancellations.count += 1
            quarantine.append((own, instant))
        } else {
            if let target { release(number, of: target.id, type: target.type, until: instant) }
            release(own, of: nil, type: 0, at: position, until: instant)
        }
        return .own(own)
    }

    /// Nothing more is to come for the number of an abandoned request, or of a cancel frame (`nil`).
    private mutating func release(
        _ number: SerialNumber,
        of id: RequestID?,
        type: UInt32,
        at position: OutboundPosition? = nil,
        until: Instant
    ) {
        if id != nil { abandonedCount -= 1 }
        cancellations.repeated.remove(number)
        slots.insert(.released(id, type: type), for: number)
        cancellations.released.append(Released(number: number, until: until, position: position))
        cancellations.count += 1
    }

    /// Returns the position of the cancel frame if no byte of it was written.
    @discardableResult
    mutating func endOldestReleased(before unstarted: OutboundPosition? = nil) -> OutboundPosition? {
        guard let first = cancellations.released.popFirst() else { return nil }
        cancellations.count -= 1
        slots.remove(first.number)
        let isUnsent = first.position.map { !Self.isStarted($0, unstarted) } ?? false
        noteFree(first.number, wasSent: !isUnsent)
        return isUnsent ? first.position : nil
    }

    private static func isStarted(_ position: OutboundPosition, _ unstarted: OutboundPosition?) -> Bool {
        unstarted.map { position < $0 } ?? true
    }

    mutating func endCancelFrame(_ number: SerialNumber) {
        guard let frame = cancellations.frames.removeValue(forKey: number) else { return }
        freeCancelFrame(number, wasSent: true)
        if let target = frame.flushes, cancellations.flushed.remove(target) != nil { removeAbandoned(target) }
    }

    /// The frame was not answered in time. Returns its position if no byte of it was written.
    mutating func dropCancelFrame(_ number: SerialNumber, before unstarted: OutboundPosition?) -> OutboundPosition? {
        guard let frame = cancellations.frames.removeValue(forKey: number) else { return nil }
        let wasSent = Self.isStarted(frame.position, unstarted)
        freeCancelFrame(number, wasSent: wasSent)
        if let target = frame.flushes { cancellations.flushed.remove(target) }
        return wasSent ? nil : frame.position
    }

    private mutating func freeCancelFrame(_ number: SerialNumber, wasSent: Bool) {
        cancellations.count -= 1
        slots.remove(number)
        noteFree(number, wasSent: wasSent)
    }

    // MARK: Requests that were sent more than once

    /// How long after an answer to one copy of a request an answer to another may come.
    static let longestEcho = Duration.seconds(10)

    mutating func noteRepeated(_ number: SerialNumber, _ frame: Frame) {
        keep(frame, for: number)
        cancellations.repeated.insert(number)
    }

    func isRepeated(_ number: SerialNumber) -> Bool {
        !areCancellationsOrdinary && cancellations.repeated.contains(number)
    }

    mutating func endRepeated(_ number: SerialNumber) -> Bool {
        !areCancellationsOrdinary && cancellations.repeated.remove(number) != nil
    }

    /// Holds the number because another answer may come. Its time begins at the next look.
    mutating func beginEcho(_ number: SerialNumber, of id: RequestID, type: UInt32) {
        slots.insert(.echo(id, type: type), for: number)
        cancellations.newEchoes.append(number)
        cancellations.count += 1
    }

    mutating func endEchoes(at now: Instant) {
        for number in exchange(&cancellations.newEchoes, with: []) {
            cancellations.echoes.append((number, now.advanced(by: Self.longestEcho)))
        }
        while let first = cancellations.echoes.first, first.until <= now {
            _ = cancellations.echoes.popFirst()
            cancellations.count -= 1
            slots.remove(first.number)
            noteFree(first.number)
        }
    }

    func isFlushed(_ number: SerialNumber) -> Bool {
        !areCancellationsOrdinary && cancellations.flushed.contains(number)
    }
}
