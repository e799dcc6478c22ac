/// The requests in flight on one link, by the number that identifies their responses.
///
/// If responses are matched by serial number, that number is the serial number in the frame. If responses are matched
/// in order, the number counts the requests of the link from 1, and the next response belongs to the lowest number: of
/// the link, or of the channel of the response.
///
///     insert ──► in flight ──response──► removed
///                   └──abandon──► abandoned ──late response, end of quarantine──► removed
///
/// A number is not reused before it is removed, because a late response must not reach another request. Each request is
/// removed exactly once. So its ID is returned once, and a late or repeated response is an ordinary case.
package struct InFlightTable: Sendable {
    /// A request in flight.
    package struct Entry: Sendable {
        package let id: RequestID
        /// The type number of the request, for the cancel frame.
        package let type: UInt32
        /// The position of its frame in the outbound queue of the link.
        package let position: OutboundPosition
    }

    enum Slot: Sendable {
        case inFlight(Entry)
        /// Abandoned after its first byte was written. Until `until`, its serial number is in quarantine, or, if
        /// matched in order, the server may take time to respond.
        case abandoned(RequestID, type: UInt32, until: Instant)
        /// A cancel frame, to be answered, of this request.
        case cancelFrame(RequestID)
        /// This request, which was abandoned and is not to be answered, or a cancel frame of which the same is true
        /// (`nil`).
        case released(RequestID?, type: UInt32)
        /// This request, which was sent more than once and has had an answer: another one may come.
        case echo(RequestID, type: UInt32)
    }

    var slots = SequentialMap<Slot>()
    /// The requests in flight whose responses are to be compared with them, by their numbers. Few protocols need it.
    private var kept: [SerialNumber: Frame] = [:]
    let range: ClosedRange<SerialNumber>
    let isInOrder: Bool
    /// The number to try first for the next request.
    var next: SerialNumber
    /// Matched by serial: whether the free numbers are listed, because most of many numbers are held. Otherwise, `next`
    /// is near a free number.
    private(set) var listsFree = false {
        didSet {
            isFreeWatched = hasChannels || reportsEnds || listsFree
            choosesNext = isDrawn || listsFree
        }
    }
    /// Whether `next` is not simply counted up.
    private var choosesNext = false
    /// Matched by serial: whether serials are drawn at random, so that they have no order.
    let isDrawn: Bool
    /// Whether anything is to be done when a number becomes free, apart from its removal.
    private var isFreeWatched = false
    /// Matched by serial: whether the numbers of requests that were sent are collected in `ends` when they become free.
    private var reportsEnds = false
    /// Matched in order: every lower number has been removed.
    var oldest: SerialNumber = 1
    /// Matched in order: every lower number has been removed or abandoned.
    private var oldestAwaited: SerialNumber = 1
    /// Matched in order: where the search for the next request that was not sent begins, and the position at which the
    /// last one ended.
    private var unsentSearch = (number: SerialNumber(1), position: OutboundPosition.first)
    /// The number of requests and numbers that searches have passed so far.
    package internal(set) var visitedCount = 0
    /// The number of abandoned requests that may still be answered.
    package internal(set) var abandonedCount = 0
    /// Matched by serial: the abandoned requests, and cancel frames, in the order in which their quarantine ends. Some
    /// may have been removed from `slots`.
    var quarantine = Deque<(serial: SerialNumber, until: Instant)>()
    /// Matched by serial: where the search for the requests of the next cumulative acknowledgement begins.
    var acknowledged = Acknowledged()
    /// Matched by serial: what the cancel frames of some protocols concern.
    var cancellations: Cancellations {
        get { rareCancellations.value }
        _modify { yield &rareCancellations.value }
    }
    private var rareCancellations = Rare<Cancellations>()
    /// What responses and parts that name many requests have found.
    var lookups: Lookups {
        get { extras.value.lookups }
        _modify { yield &extras.value.lookups }
    }
    private var extras = Rare<Extras>()
    /// Whether responses are matched in order within their channels.
    package let hasChannels: Bool
    /// The channels, if responses are matched in order within them.
    var channels: Channels {
        get { rareChannels.value }
        _modify { yield &rareChannels.value }
    }
    private var rareChannels = Rare<Channels>()

    /// What few links need.
    private struct Extras: EmptyInitializable, Sendable {
        /// The free numbers, in the order of their use, if they are listed.
        var free = Deque<SerialNumber>()
        /// Returns random bits, if serials are drawn at random.
        var draw: (@Sendable () -> UInt64)?
        var ends = Ends()
        var lookups = Lookups()
    }

    package init(
        matching: ResponseMatching,
        firstSerial: SerialNumber? = nil,
        maximumInFlightPerChannel: Int = .max,
        draw: (@Sendable () -> UInt64)? = nil
    ) {
        hasChannels = matching == .inOrderByChannel
        switch matching {
        case .serial(let range): (self.range, isInOrder) = (range, false)
        case .inOrder, .inOrderByChannel: (range, isInOrder) = (1...SerialNumber.max, true)
        }
        next = firstSerial ?? range.lowerBound
        isDrawn = !isInOrder && draw != nil
        choosesNext = isDrawn
        isFreeWatched = hasChannels
        if isDrawn { extras.value.draw = draw }
        if hasChannels { channels.limit = max(1, maximumInFlightPerChannel) }
    }

    /// The number of requests in flight, without abandoned ones.
    package var count: Int {
        let count = slots.count - abandonedCount
        return rareCancellations.isInitial ? count : count - cancellations.count
    }

    /// The count of numbers that are held, by requests in flight, abandoned ones or cancel frames.
    package var heldCount: Int {
        rareCancellations.isInitial ? slots.count : slots.count - cancellations.released.count
    }

    /// The number of cancel frames that are to be answered.
    package var cancelFrameCount: Int { rareCancellations.isInitial ? 0 : cancellations.frames.count }

    /// Whether no cancel frame has ever changed the time for which a number is held.
    var areCancellationsOrdinary: Bool { rareCancellations.isInitial }

    /// The number of requests for which memory is allocated.
    package var capacity: Int { slots.capacity }

    // MARK: Inserting

    /// The count of all numbers, or the greatest number if there is one more.
    var span: UInt64 {
        let (span, isAll) = (range.upperBound - range.lowerBound).addingReportingOverflow(1)
        return isAll ? .max : span
    }

    /// Whether every number is held.
    package var isExhausted: Bool { slots.count >= span && heldCount >= span }

    /// Inserts a request and returns its number; `nil` if every number is held.
    package mutating func insert(
        _ id: RequestID,
        type: UInt32,
        at position: OutboundPosition
    ) -> SerialNumber? {
        guard let number = takeNumber() else { return nil }
        slots.insert(.inFlight(Entry(id: id, type: type, position: position)), for: number)
        return number
    }

    /// Returns a free number, to be inserted; `nil` if every number is held.
    @inline(__always)
    mutating func takeNumber() -> SerialNumber? {
        if isExhausted { return nil }
        if choosesNext || slots.contains(next) { findFree() }
        let number = next
        advance()
        return number
    }

    /// Keeps the request with `number`, in flight, because its response is to be compared with it.
    package mutating func keep(_ frame: Frame, for number: SerialNumber) { kept[number] = frame }

    /// The request with `number`, if it was kept.
    package func kept(_ number: SerialNumber) -> Frame? { kept[number] }

    /// Forgets the kept request with `number`, which is no longer in flight.
    @inline(__always)
    private mutating func dropKept(_ number: SerialNumber) { if !kept.isEmpty { kept[number] = nil } }

    /// Forgets the kept request with `number`, which was answered. Returns whether its number is held for a second
    /// answer.
    @inline(never)
    private mutating func leaveKept(_ number: SerialNumber, _ entry: Entry) -> Bool {
        kept[number] = nil
        guard endRepeated(number) else { return false }
        beginEcho(number, of: entry.id, type: entry.type)
        return true
    }

    /// Moves `next` to a free number. If most numbers are held, a search could pass all of them for every request.
    @inline(never)
    private mutating func findFree() {
        if slots.count >= span { endOldestReleased() }
        if isDrawn, let draw = extras.value.draw { return drawFree(draw) }
        if !listsFree, span > 1024, UInt64(slots.count) > span / 2 { listFree() }
        if listsFree, let number = extras.value.free.popFirst() {
            next = number
        } else {
            while slots.contains(next) {
                visitedCount += 1
                advance()
            }
        }
    }

    /// Draws `next` at random from the numbers that are free.
    private mutating func drawFree(_ draw: () -> UInt64) {
        if !listsFree {
            // Of 32 draws, one nearly always succeeds unless most numbers are held.
            let last = range.upperBound - range.lowerBound
            for _ in 0..<32 {
                visitedCount += 1
                next = range.lowerBound + Self.random(through: last, draw)
                if !slots.contains(next) { return }
            }
            // Never a search of a range in which few numbers are held, whatever the generator returns.
            guard UInt64(slots.count) >= span / 4 else {
                while slots.contains(next) { advance() }
                return
            }
            listFree()
        }
        let count = extras.value.free.count
        guard count > 0 else { return }
        let index = Int(Self.random(through: UInt64(count - 1), draw))
        next = extras.value.free[index]
        if let last = extras.value.free.popLast(), index < count - 1 { extras.value.free[index] = last }
    }

    /// A number from 0 to `last`, each with the same probability.
    private static func random(through last: UInt64, _ draw: () -> UInt64) -> UInt64 {
        guard last < .max else { return draw() }
        let count = last + 1
        // The high half of the product of a random number and the count is uniform, except for the smallest low halves
        // (Lemire, "Fast Random Integer Generation in an Interval").
        let least = (0 &- count) % count
        while true {
            let product = draw().multipliedFullWidth(by: count)
            if product.low >= least { return product.high }
        }
    }

    /// Lists the numbers that are free, from `next` on.
    private mutating func listFree() {
        var free = Deque<SerialNumber>()
        visitedCount += Int(span)
        for _ in 0..<span {
            if !slots.contains(next) { free.append(next) }
            advance()
        }
        extras.value.free = free
        listsFree = true
        acknowledged.isOutOfOrder = true
    }

    /// Notes that a number has been removed.
    ///
    /// - Parameters:
    ///   - wasAbandoned: Whether it was that of an abandoned request.
    ///   - wasSent: Whether at least one byte of its frame was written.
    @inline(__always)
    mutating func noteFree(_ number: SerialNumber, wasAbandoned: Bool = false, wasSent: Bool = true) {
        if isFreeWatched { noteFreeAmongMany(number, wasAbandoned: wasAbandoned, wasSent: wasSent) }
    }

    @inline(never)
    private mutating func noteFreeAmongMany(_ number: SerialNumber, wasAbandoned: Bool, wasSent: Bool) {
        if hasChannels { leaveChannel(number, wasAbandoned: wasAbandoned) }
        if reportsEnds, extras.value.ends.unreported.remove(number) == nil, wasSent {
            extras.value.ends.numbers.append(number)
        }
        guard listsFree else { return }
        extras.value.free.append(number)
        if UInt64(slots.count) < span / 4 { forgetFree() }
    }

    private mutating func forgetFree() {
        guard listsFree else { return }
        listsFree = false
        extras.value.free = Deque()
    }

    mutating func advance() {
        if next == range.upperBound {
            next = range.lowerBound
            acknowledged.isOutOfOrder = true
        } else {
            next += 1
        }
    }

    /// Gives the next request the lowest number that is free, if responses are matched by serial.
    package mutating func startOver() {
        guard !isInOrder else { return }
        next = range.lowerBound
        forgetFree()
        acknowledged.isOutOfOrder = true
    }

    // MARK: The ends of requests

    private struct Ends: Sendable {
        /// The numbers that have become free since `takeEnded`.
        var numbers: [SerialNumber] = []
        /// The numbers of requests that are not to be reported.
        var unreported: Set<SerialNumber> = []
    }

    /// Reports from now on the numbers of requests that were sent, when they become free, unless responses are matched
    /// in order. Those that are held now are not reported.
    package mutating func reportEnds() {
        guard !isInOrder else { return }
        (reportsEnds, isFreeWatched) = (true, true)
        extras.value.ends = Ends()
        extras.value.ends.unreported = Set(slots.sorted.map(\.key))
    }

    /// Returns the numbers of sent requests that have become free since the last call, each once, in that order.
    package mutating func takeEnded() -> [SerialNumber] {
        extras.isInitial || extras.value.ends.numbers.isEmpty ? [] : exchange(&extras.value.ends.numbers, with: [])
    }

    // MARK: Responses

    /// The request to which a response, or a part of one, belongs.
    package enum Match: Sendable {
        /// This request, with this number.
        case request(Entry, SerialNumber)
        /// This abandoned request. The response must be discarded.
        case late(RequestID)
        /// No request, or one that was answered already.
        case unknown
    }

    /// The request to which a complete response belongs, and which usually has left the table.
    package enum Answered: Sendable, Equatable {
        /// This request, with its frame at this position.
        case request(RequestID, OutboundPosition)
        /// This abandoned request, which has this type. The response must be discarded.
        case late(RequestID, type: UInt32)
        /// A cancel frame.
        case cancelFrame
        /// This request, which was sent several times and has had an answer.
        case again(RequestID)
        /// No request, or one that was answered already.
        case unknown
    }

    /// Takes a complete response and removes its request. Matched in order by channel, `serial` is the channel, here
    /// and below.
    ///
    /// No frame from `unstarted` on has been written, so a response cannot belong to one of those.
    package mutating func takeAnswered(_ serial: SerialNumber, before unstarted: OutboundPosition) -> Answered {
        guard let number = number(of: serial) else { return .unknown }
        guard let slot = slots.remove(number) else { return .unknown }
        guard case .inFlight(let entry) = slot else { return takeAbandoned(slot, number, before: unstarted) }
        if entry.position < unstarted {
            if !kept.isEmpty, leaveKept(number, entry) { return .request(entry.id, entry.position) }
            noteFree(number)
            return .request(entry.id, entry.position)
        }
        slots.insert(slot, for: number)
        return .unknown
    }

    /// Takes the response to what is no request in flight, and was removed.
    @inline(never)
    private mutating func takeAbandoned(
        _ slot: Slot,
        _ number: SerialNumber,
        before unstarted: OutboundPosition
    ) -> Answered {
        switch slot {
        case .inFlight: return .unknown
        case .abandoned(let id, let type, _):
            if isFlushed(number) {
                slots.insert(slot, for: number)
            } else if endRepeated(number) {
                abandonedCount -= 1
                beginEcho(number, of: id, type: type)
            } else {
                noteFree(number, wasAbandoned: true)
                abandonedCount -= 1
            }
            return .late(id, type: type)
        case .cancelFrame:
            slots.insert(slot, for: number)
            guard let frame = cancellations.frames[number], frame.position < unstarted else { return .unknown }
            endCancelFrame(number)
            return .cancelFrame
        case .released(let id, let type):
            slots.insert(slot, for: number)
            return id.map { .late($0, type: type) } ?? .cancelFrame
        case .echo(let id, _):
            slots.insert(slot, for: number)
            return .again(id)
        }
    }

    /// Returns the request to which a response, or a part of one, belongs. The request stays in the table.
    ///
    /// The number of an abandoned request is held until `instant` at least, because the server still works on it.
    package mutating func match(
        _ serial: SerialNumber,
        before unstarted: OutboundPosition,
        prolongingTo instant: Instant
    ) -> Match {
        guard let number = number(of: serial) else { return .unknown }
        switch slots[number] {
        case .inFlight(let entry)?: return entry.position < unstarted ? .request(entry, number) : .unknown
        case .abandoned(let id, let type, let until)?:
            if until < instant { hold(number, of: id, type: type, until: instant) }
            return .late(id)
        case .cancelFrame(let id)?: return .late(id)
        case .released(let id, _)?: return id.map { .late($0) } ?? .unknown
        case .echo(let id, _)?: return .late(id)
        case nil: return .unknown
        }
    }

    mutating func number(of serial: SerialNumber) -> SerialNumber? {
        guard isInOrder else { return serial }
        return hasChannels ? first(onChannel: serial) : firstInOrder()
    }

    /// Matched in order: the number of the oldest request, including abandoned ones; `nil` if there is none.
    mutating func firstInOrder() -> SerialNumber? {
        while oldest < next {
            if slots.contains(oldest) { return oldest }
            oldest += 1
        }
        return nil
    }

    // MARK: One request

    /// Whether a request with `number` is in flight or abandoned, and may still be answered.
    package func holds(_ number: SerialNumber) -> Bool {
        switch slots[number] {
        case .inFlight?, .abandoned?: true
        case .cancelFrame?, .released?, .echo?, nil: false
        }
    }

    package subscript(_ number: SerialNumber) -> Entry? {
        if case .inFlight(let entry)? = slots[number] { entry } else { nil }
    }

    /// Removes a request, of which nothing was sent, or which was answered (`wasSent`). Its number becomes free, unless
    /// another answer may come.
    package mutating func remove(_ number: SerialNumber, wasSent: Bool = false) -> Entry? {
        guard let entry = self[number] else { return nil }
        if !kept.isEmpty, leaveKept(number, entry) { return entry }
        slots.remove(number)
        noteFree(number, wasSent: wasSent)
        return entry
    }

    /// Removes the abandoned request with `number`.
    mutating func removeAbandoned(_ number: SerialNumber) {
        _ = endRepeated(number)
        slots.remove(number)
        noteFree(number, wasAbandoned: true)
        abandonedCount -= 1
    }

    /// Matched in order: removes the request whose frame is at `position` and was not sent.
    ///
    /// Later requests have later positions, and usually these requests are removed in order. So all searches together
    /// pass each request once.
    package mutating func removeInOrder(at position: OutboundPosition) -> Entry? {
        if hasChannels { _ = firstInOrder() }
        let begin = position < unsentSearch.position ? oldest : max(oldest, unsentSearch.number)
        unsentSearch = (begin, position)
        while unsentSearch.number < next {
            if let entry = self[unsentSearch.number], entry.position >= position {
                return entry.position == position ? remove(unsentSearch.number) : nil
            }
            visitedCount += 1
            unsentSearch.number += 1
        }
        return nil
    }

    /// Abandons a request of which at least one byte was written. Its number is held until it is answered or, if
    /// matched by serial, until `instant`.
    package mutating func abandon(_ number: SerialNumber, until instant: Instant) -> Entry? {
        guard let entry = self[number] else { return nil }
        abandonedCount += 1
        dropKept(number)
        hold(number, of: entry.id, type: entry.type, until: instant)
        return entry
    }

    /// Holds the number of an abandoned request until `instant`.
    mutating func hold(_ number: SerialNumber, of id: RequestID, type: UInt32, until instant: Instant) {
        slots.insert(.abandoned(id, type: type, until: instant), for: number)
        guard !isInOrder else { return }
        quarantine.append((number, instant))
        // Otherwise answered entries would stay in the queue behind one that the server never answers, until its
        // quarantine ends.
        if quarantine.count > 2 * (abandonedCount + cancellations.count) + 64 {
            let (slots, frames) = (slots, cancellations.frames)
            quarantine.removeAll { !Self.isHeld($0, in: slots, frames) }
        }
    }

    private static func isHeld(
        _ held: (serial: SerialNumber, until: Instant),
        in slots: SequentialMap<Slot>,
        _ frames: [SerialNumber: CancelFrame]
    ) -> Bool {
        switch slots[held.serial] {
        case .abandoned(_, _, let until)?: until == held.until
        case .cancelFrame?: frames[held.serial]?.until == held.until
        case .inFlight?, .released?, .echo?, nil: false
        }
    }

    // MARK: Time

    /// Frees the serial numbers whose quarantine has ended at `now`. Returns the positions of the cancel frames among
    /// them of which no byte was written. They must not be sent any more, because their numbers are free.
    ///
    /// - Parameter unstarted: The position of the first frame of which no byte was written; `nil` if all were.
    @discardableResult
    package mutating func endQuarantine(
        at now: Instant,
        before unstarted: OutboundPosition? = nil
    ) -> [OutboundPosition] {
        var unsent: [OutboundPosition] = []
        if !rareCancellations.isInitial {
            while let first = cancellations.released.first, first.until <= now {
                if let position = endOldestReleased(before: unstarted) { unsent.append(position) }
            }
            endEchoes(at: now)
        }
        while let first = quarantine.first {
            // Since then, an answer may have freed the serial, and another request may have taken it and been
            // abandoned.
            if Self.isHeld(first, in: slots, cancellations.frames) {
                guard first.until <= now else { break }
                if cancellations.frames[first.serial] != nil {
                    if let position = dropCancelFrame(first.serial, before: unstarted) { unsent.append(position) }
                } else {
                    cancellations.flushed.remove(first.serial)
                    removeAbandoned(first.serial)
                }
            }
            _ = quarantine.popFirst()
        }
        return unsent
    }

    /// The earliest instant at which a quarantine may end; `nil` if there is none.
    package var nextQuarantineEnd: Instant? {
        @inline(__always) get {
            let end = quarantine.first?.until
            return rareCancellations.isInitial ? end : rareCancellations.value.nextEnd(before: end)
        }
    }

    // MARK: All requests

    /// Removes the requests whose frames are at `position` or after it, and returns them in the order of their frames.
    package mutating func removeAll(from position: OutboundPosition) -> [Entry] {
        var removed: [Entry] = []
        for (number, slot) in slots.sorted {
            guard case .inFlight(let entry) = slot, entry.position >= position else { continue }
            slots.remove(number)
            noteFree(number, wasSent: false)
            dropKept(number)
            removed.append(entry)
        }
        return removed.sorted { $0.position < $1.position }
    }

    /// The requests in flight, in ascending order of their numbers.
    package var all: [Entry] {
        slots.sorted.compactMap { if case .inFlight(let entry) = $0.value { entry } else { nil } }
    }

    /// The positions of the frames of all requests in flight, in any order.
    package var positions: [OutboundPosition] {
        slots.compactMap { if case .inFlight(let entry) = $0 { entry.position } else { nil } }
    }

    /// Whether a request is in flight whose frame is at one of `positions`. Searches all requests.
    package func hasRequest(at positions: Range<OutboundPosition>) -> Bool {
        slots.hasValue { if case .inFlight(let entry) = $0 { positions.contains(entry.position) } else { false } }
    }

    // MARK: Matched in order

    /// The request to which the next response belongs; `nil` if that was abandoned, or if there is none.
    ///
    /// This and the following do not apply to protocols with channels.
    package mutating func nextAnswered() -> RequestID? { firstInOrder().flatMap { self[$0]?.id } }

    /// Whether the next response belongs to a request that was not abandoned.
    package mutating func isFirstAwaited(before unstarted: OutboundPosition) -> Bool {
        guard isInOrder, !hasChannels, let entry = firstInOrder().flatMap({ self[$0] }) else { return false }
        return entry.position < unstarted
    }

    /// Matched in order: the earliest instant until which the server may respond to an abandoned request. Searches all
    /// requests.
    package var abandonedUntil: Instant? {
        guard isInOrder, abandonedCount > 0 else { return nil }
        return slots.compactMap { if case .abandoned(_, _, let until) = $0 { until } else { nil } }.min()
    }

    /// Whether every request before `unstarted` was answered, so that no response is missing.
    package mutating func isLevel(before unstarted: OutboundPosition) -> Bool {
        guard let first = firstInOrder() else { return true }
        return self[first].map { $0.position >= unstarted } ?? false
    }

    /// Whether responses are due and all of them are for abandoned requests.
    package mutating func awaitsOnlyAbandoned(before unstarted: OutboundPosition) -> Bool {
        guard isInOrder, abandonedCount > 0 else { return false }
        oldestAwaited = max(oldestAwaited, oldest)
        while oldestAwaited < next {
            if let entry = self[oldestAwaited] { return entry.position >= unstarted }
            visitedCount += 1
            oldestAwaited += 1
        }
        return true
    }

    /// Until when the server may respond to the oldest request, if that was abandoned. `nil` if it was not, and always
    /// if matched by serial.
    package mutating func oldestAbandonedUntil() -> Instant? {
        guard isInOrder, !hasChannels, abandonedCount > 0, let first = firstInOrder(),
            case .abandoned(_, _, let until)? = slots[first]
        else { return nil }
        return until
    }
}
