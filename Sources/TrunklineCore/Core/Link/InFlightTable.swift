/// The requests in flight on one link, by the number that identifies their responses.
///
/// Matched by serial, that is the serial in the frame. Matched in order, it counts the requests from 1, and the next
/// response belongs to the lowest number: of the link, or of the channel of the response.
///
///     insert ──► in flight ──response──► removed
///                   └──abandon──► abandoned ──late response, end of quarantine──► removed
///
/// A number is not reused before it is removed, because a late response must not reach another request. Each request is
/// removed exactly once. So its ID is returned once, and a late or repeated response is an ordinary case.
package struct InFlightTable: Sendable {
    package struct Entry: Sendable {
        let id: RequestID
        let type: UInt32
        let position: OutboundPosition
    }

    enum Slot: Sendable {
        case inFlight(Entry)
        /// Until `until`, its serial is in quarantine or, matched in order, the server may still respond.
        case abandoned(RequestID, type: UInt32, until: Instant)
        case cancelFrame(RequestID)
        /// An abandoned request, or its cancel frame (`nil`), that is not to be answered.
        case released(RequestID?, type: UInt32)
        /// This request, which was sent more than once and has had an answer: another one may come.
        case echo(RequestID, type: UInt32)
    }

    var slots = SequentialMap<Slot>()
    /// Few protocols need it.
    private var kept: [SerialNumber: Frame] = [:]
    let range: ClosedRange<SerialNumber>
    let isInOrder: Bool
    var next: SerialNumber
    /// Matched by serial: whether the free numbers are listed, because most of many numbers are held.
    private(set) var listsFree = false {
        didSet {
            isFreeWatched = hasChannels || reportsEnds || listsFree
            choosesNext = isDrawn || listsFree
        }
    }
    private var choosesNext = false
    /// Matched by serial: whether serials are drawn at random, so that they have no order.
    let isDrawn: Bool
    private var isFreeWatched = false
    private var reportsEnds = false
    /// Matched in order: every lower number has been removed.
    var oldest: SerialNumber = 1
    /// Matched in order: every lower number has been removed or abandoned.
    private var oldestAwaited: SerialNumber = 1
    /// Matched in order: where the next search for an unsent request begins, and the position of the last one.
    private var unsentSearch = (number: SerialNumber(1), position: OutboundPosition.first)
    var visitedCount = 0
    var abandonedCount = 0
    /// Matched by serial: abandoned requests and cancel frames, by the end of their quarantine. Some may have left.
    var quarantine = Deque<(serial: SerialNumber, until: Instant)>()
    var acknowledged = Acknowledged()
    var cancellations: Cancellations {
        get { rareCancellations.value }
        _modify { yield &rareCancellations.value }
    }
    private var rareCancellations = Rare<Cancellations>()
    var lookups: Lookups {
        get { extras.value.lookups }
        _modify { yield &extras.value.lookups }
    }
    private var extras = Rare<Extras>()
    let hasChannels: Bool
    var channels: Channels {
        get { rareChannels.value }
        _modify { yield &rareChannels.value }
    }
    private var rareChannels = Rare<Channels>()

    private struct Extras: EmptyInitializable, Sendable {
        var free = Deque<SerialNumber>()
        var draw: (@Sendable () -> UInt64)?
        var ends = Ends()
        var lookups = Lookups()
    }

    init(
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

    var count: Int {
        let count = slots.count - abandonedCount
        return rareCancellations.isInitial ? count : count - cancellations.count
    }

    var heldCount: Int {
        rareCancellations.isInitial ? slots.count : slots.count - cancellations.released.count
    }

    var cancelFrameCount: Int { rareCancellations.isInitial ? 0 : cancellations.frames.count }

    /// Whether no cancel frame has ever changed the time for which a number is held.
    var areCancellationsOrdinary: Bool { rareCancellations.isInitial }

    var capacity: Int { slots.capacity }

    // MARK: Inserting

    var span: UInt64 {
        let (span, isAll) = (range.upperBound - range.lowerBound).addingReportingOverflow(1)
        return isAll ? .max : span
    }

    var isExhausted: Bool { slots.count >= span && heldCount >= span }

    mutating func insert(
        _ id: RequestID,
        type: UInt32,
        at position: OutboundPosition
    ) -> SerialNumber? {
        guard let number = takeNumber() else { return nil }
        slots.insert(.inFlight(Entry(id: id, type: type, position: position)), for: number)
        return number
    }

    /// The number is to be inserted. `nil` if every number is held.
    @inline(__always)
    mutating func takeNumber() -> SerialNumber? {
        if isExhausted { return nil }
        if choosesNext || slots.contains(next) { findFree() }
        let number = next
        advance()
        return number
    }

    mutating func keep(_ frame: Frame, for number: SerialNumber) { kept[number] = frame }

    func kept(_ number: SerialNumber) -> Frame? { kept[number] }

    @inline(__always)
    private mutating func dropKept(_ number: SerialNumber) { if !kept.isEmpty { kept[number] = nil } }

    /// Returns whether the number of the answered request is held for a second answer.
    @inline(never)
    private mutating func leaveKept(_ number: SerialNumber, _ entry: Entry) -> Bool {
        kept[number] = nil
        guard endRepeated(number) else { return false }
        beginEcho(number, of: entry.id, type: entry.type)
        return true
    }

    /// If most numbers are held, a search could pass all of them for every request.
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

    /// `wasSent`: at least one byte of the frame was written.
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

    /// Matched by serial: the next request gets the lowest number that is free.
    mutating func startOver() {
        guard !isInOrder else { return }
        next = range.lowerBound
        forgetFree()
        acknowledged.isOutOfOrder = true
    }

    // MARK: The ends of requests

    private struct Ends: Sendable {
        var numbers: [SerialNumber] = []
        var unreported: Set<SerialNumber> = []
    }

    /// Those that are held now are not reported.
    mutating func reportEnds() {
        guard !isInOrder else { return }
        (reportsEnds, isFreeWatched) = (true, true)
        extras.value.ends = Ends()
        extras.value.ends.unreported = Set(slots.sorted.map(\.key))
    }

    mutating func takeEnded() -> [SerialNumber] {
        extras.isInitial || extras.value.ends.numbers.isEmpty ? [] : exchange(&extras.value.ends.numbers, with: [])
    }

    // MARK: Responses

    enum Match: Sendable {
        case request(Entry, SerialNumber)
        /// The request is abandoned. The response must be discarded.
        case late(RequestID)
        case unknown
    }

    /// The request to which a complete response belongs, and which usually has left the table.
    enum Answered: Sendable, Equatable {
        case request(RequestID, OutboundPosition)
        case late(RequestID, type: UInt32)
        case cancelFrame
        case again(RequestID)
        case unknown
    }

    /// `serial` is the channel if matched in order by channel, here and below. No frame from `unstarted` on has been
    /// written, so a response cannot belong to one of those.
    mutating func takeAnswered(_ serial: SerialNumber, before unstarted: OutboundPosition) -> Answered {
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

    /// The number of an abandoned request is held until `instant` at least, because the server still works on it.
    mutating func match(
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

    mutating func firstInOrder() -> SerialNumber? {
        while oldest < next {
            if slots.contains(oldest) { return oldest }
            oldest += 1
        }
        return nil
    }

    // MARK: One request

    func holds(_ number: SerialNumber) -> Bool {
        switch slots[number] {
        case .inFlight?, .abandoned?: true
        case .cancelFrame?, .released?, .echo?, nil: false
        }
    }

    subscript(_ number: SerialNumber) -> Entry? {
        if case .inFlight(let entry)? = slots[number] { entry } else { nil }
    }

    /// `wasSent`: the request was answered.
    mutating func remove(_ number: SerialNumber, wasSent: Bool = false) -> Entry? {
        guard let entry = self[number] else { return nil }
        if !kept.isEmpty, leaveKept(number, entry) { return entry }
        slots.remove(number)
        noteFree(number, wasSent: wasSent)
        return entry
    }

    mutating func removeAbandoned(_ number: SerialNumber) {
        _ = endRepeated(number)
        slots.remove(number)
        noteFree(number, wasAbandoned: true)
        abandonedCount -= 1
    }

    /// Usually requests are removed in the order of their positions. So all searches together pass each once.
    mutating func removeInOrder(at position: OutboundPosition) -> Entry? {
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

    /// At least one byte was written. The number is held until the answer or, if matched by serial, until `instant`.
    mutating func abandon(_ number: SerialNumber, until instant: Instant) -> Entry? {
        guard let entry = self[number] else { return nil }
        abandonedCount += 1
        dropKept(number)
        hold(number, of: entry.id, type: entry.type, until: instant)
        return entry
    }

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

    /// Returns the positions of cancel frames that must not be sent, because their numbers are free.
    @discardableResult
    mutating func endQuarantine(
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

    var nextQuarantineEnd: Instant? {
        @inline(__always) get {
            let end = quarantine.first?.until
            return rareCancellations.isInitial ? end : rareCancellations.value.nextEnd(before: end)
        }
    }

    // MARK: All requests

    mutating func removeAll(from position: OutboundPosition) -> [Entry] {
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

    var all: [Entry] {
        slots.sorted.compactMap { if case .inFlight(let entry) = $0.value { entry } else { nil } }
    }

    var positions: [OutboundPosition] {
        slots.compactMap { if case .inFlight(let entry) = $0 { entry.position } else { nil } }
    }

    func hasRequest(at positions: Range<OutboundPosition>) -> Bool {
        slots.hasValue { if case .inFlight(let entry) = $0 { positions.contains(entry.position) } else { false } }
    }

    // MARK: Matched in order

    /// This and the following do not apply to protocols with channels.
    mutating func nextAnswered() -> RequestID? { firstInOrder().flatMap { self[$0]?.id } }

    mutating func isFirstAwaited(before unstarted: OutboundPosition) -> Bool {
        guard isInOrder, !hasChannels, let entry = firstInOrder().flatMap({ self[$0] }) else { return false }
        return entry.position < unstarted
    }

    var abandonedUntil: Instant? {
        guard isInOrder, abandonedCount > 0 else { return nil }
        return slots.compactMap { if case .abandoned(_, _, let until) = $0 { until } else { nil } }.min()
    }

    /// Whether every request before `unstarted` was answered, so that no response is missing.
    mutating func isLevel(before unstarted: OutboundPosition) -> Bool {
        guard let first = firstInOrder() else { return true }
        return self[first].map { $0.position >= unstarted } ?? false
    }

    mutating func awaitsOnlyAbandoned(before unstarted: OutboundPosition) -> Bool {
        guard isInOrder, abandonedCount > 0 else { return false }
        oldestAwaited = max(oldestAwaited, oldest)
        while oldestAwaited < next {
            if let entry = self[oldestAwaited] { return entry.position >= unstarted }
            visitedCount += 1
            oldestAwaited += 1
        }
        return true
    }

    mutating func oldestAbandonedUntil() -> Instant? {
        guard isInOrder, !hasChannels, abandonedCount > 0, let first = firstInOrder(),
            case .abandoned(_, _, let until)? = slots[first]
        else { return nil }
        return until
    }
}
