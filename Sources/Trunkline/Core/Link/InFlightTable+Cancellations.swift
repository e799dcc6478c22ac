/// Numbers that are held in other ways than by a request in flight: by cancel frames after which the server sends something
/// else than the response of the request (see `CancelKind`), and by requests that were sent twice.
extension InFlightTable {
    /// The numbers that cancel frames concern, of which most protocols have none. They take no place in flight.
    struct Cancellations: EmptyInitializable, Sendable {
        /// The cancel frames that are to be answered, by their own numbers.
        var frames: [SerialNumber: CancelFrame] = [:]
        /// The abandoned requests whose numbers become free with the answer to their cancel frames, and not before, and those
        /// that were sent several times.
        var flushed: Set<SerialNumber> = []
        /// The numbers that are free, apart from a response that may have crossed the cancel frame, until their quarantine
        /// ends. Until then they are used last.
        var released = Deque<(number: SerialNumber, until: Instant)>()
        /// The requests in flight that were sent more than once, each with the end of the time in which a second answer may
        /// come.
        var repeated: [SerialNumber: Instant] = [:]
        /// Those among `flushed` that were sent several times and have had an answer.
        var answered: Set<SerialNumber> = []
        /// The count of numbers that are held without a place in flight.
        var count = 0
    }

    struct CancelFrame: Sendable {
        let position: OutboundPosition
        let until: Instant
        /// The request, if its number is held until this frame is answered.
        let flushes: SerialNumber?
    }

    /// The serial of a cancel frame.
    package enum CancelSerial: Sendable, Equatable {
        /// That of the request, or whatever the codec has set.
        case ofRequest
        case own(SerialNumber)
        /// Every serial is held, so the frame cannot be sent.
        case none
    }

    /// Notes that the request with `number` is cancelled by a frame at `position`, which is not queued yet.
    ///
    /// - Parameter instant: How long numbers are held for an answer.
    package mutating func noteCancelFrame(
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
            release(own, of: nil, type: 0, until: instant)
        }
        return .own(own)
    }

    /// Frees the number of an abandoned request, or of a cancel frame (`nil`), of which nothing more is to come.
    private mutating func release(_ number: SerialNumber, of id: RequestID?, type: UInt32, until: Instant) {
        if id != nil { abandonedCount -= 1 }
        slots.insert(.released(id, type: type), for: number)
        cancellations.released.append((number, until))
        cancellations.count += 1
    }

    /// Ends the hold of the number that was released first.
    mutating func endOldestReleased() {
        guard let first = cancellations.released.popFirst() else { return }
        cancellations.count -= 1
        slots.remove(first.number)
        noteFree(first.number)
    }

    /// Frees the number of an answered cancel frame, and that of the request if it waits for this answer.
    mutating func endCancelFrame(_ number: SerialNumber) {
        if let target = dropCancelFrame(number) { removeAbandoned(target) }
    }

    /// Frees the number of a cancel frame. Returns that of the request, if it is no longer held for the answer to the frame.
    mutating func dropCancelFrame(_ number: SerialNumber) -> SerialNumber? {
        guard let frame = cancellations.frames.removeValue(forKey: number) else { return nil }
        cancellations.count -= 1
        slots.remove(number)
        noteFree(number)
        return frame.flushes.flatMap { cancellations.flushed.remove($0) }
    }

    /// Whether this is a further answer to a request that was sent several times. The next one is.
    mutating func isAnsweredAgain(_ number: SerialNumber) -> Bool { !cancellations.answered.insert(number).inserted }

    /// Whether the number of an abandoned request is free only when its cancel frame is answered.
    func isFlushed(_ number: SerialNumber) -> Bool {
        !areCancellationsOrdinary && cancellations.flushed.contains(number)
    }
}
