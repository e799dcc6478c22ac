import Synchronization
import TrunklineCore

/// The calls that wait until a server can take a request, oldest first. Thousands do not all go to the first server
/// that is ready: `CrowdRelease` decides.
///
/// Unchecked `Sendable`: `timer` is used only on the event loop, after the initializer, and in the deinitializer.
final class WaitingCalls: CancellationReceiver, TimerTarget, @unchecked Sendable {
    enum End: Sendable {
        /// A server can take a request, or could just now.
        case ready
        case cancelled
        case expired
        case full
        case closed
    }

    enum Offer: Equatable {
        case nothing
        case some(Int)
        case servers
        /// The same, by so many servers with this share of the weights, and more are expected to be ready soon.
        case someServers(Int, share: Double)
    }

    private struct State {
        var waiters: [UInt64: Continuation<End>] = [:]
        /// The numbers of the waiters, lowest first, and some of earlier ones.
        var line = Heap<UInt64, Void>()
        var deadlines = DeadlineQueue()
        var connecting: [UInt64: Continuation<End>] = [:]
        var lastNumber: UInt64 = 0
        var offer = Offer.nothing
        var release: CrowdRelease?
        /// Whether further callers of `waitForServer` are refused.
        var isDraining = false
        var isClosed = false

        mutating func nextNumber() -> UInt64 {
            lastNumber += 1
            return lastNumber
        }

        mutating func insert(_ waiter: Continuation<End>, _ number: UInt64, until deadline: Instant?) {
            waiters[number] = waiter
            line.insert((), key: number)
            if let deadline { deadlines.insert(RequestID(number), deadline: deadline) }
            if deadlines.isCrowded(alive: waiters.count) {
                let waiters = waiters
                deadlines.compact { waiters[$0.number] != nil }
            }
            if line.count > 2 * waiters.count + 256 {
                line = Heap()
                for number in waiters.keys { line.insert((), key: number) }
            }
        }

        var earliest: Instant? {
            guard let moment = release?.moment else { return deadlines.earliest }
            return min(moment, deadlines.earliest ?? .distantFuture)
        }

        mutating func takeFirst() -> Continuation<End>? {
            while let first = line.first {
                line.removeFirst()
                if let waiter = waiters.removeValue(forKey: first.key) { return waiter }
            }
            return nil
        }

        mutating func takeFirst(_ count: Int) -> [Continuation<End>] {
            if count >= waiters.count { return takeAll() }
            var taken: [Continuation<End>] = []
            while taken.count < count, let first = takeFirst() { taken.append(first) }
            return taken
        }

        mutating func takeDue(at latest: Instant) -> [Continuation<End>] {
            var taken: [Continuation<End>] = []
            while let id = deadlines.popDue(at: latest) {
                if let waiter = waiters.removeValue(forKey: id.number) { taken.append(waiter) }
            }
            return taken
        }

        mutating func takeReleased(at now: Instant) -> [Continuation<End>] {
            let (servers, share): (Int, Double)
            switch offer {
            case .nothing: return []
            case .some(let count): return takeFirst(count)
            case .servers:
                release = nil
                return takeAll()
            case .someServers(let count, let part): (servers, share) = (count, part)
            }
            guard !waiters.isEmpty else {
                release = nil
                return []
            }
            var current = release ?? CrowdRelease(at: now)
            var taken = takeFirst(current.next(of: waiters.count, to: servers, share: share, at: now))
            // These would not live to see their turn.
            taken += takeDue(at: current.moment.advanced(by: CrowdRelease.interval))
            release = waiters.isEmpty ? nil : current
            return taken
        }

        mutating func takeAll() -> [Continuation<End>] {
            (deadlines, line) = (DeadlineQueue(), Heap())
            return exchange(&waiters, with: [:]).sorted { $0.key < $1.key }.map(\.value)
        }

        mutating func takeConnecting() -> [Continuation<End>] {
            exchange(&connecting, with: [:]).sorted { $0.key < $1.key }.map(\.value)
        }
    }

    private let loop: any EventLoop
    private let maximum: Int
    private let state = Lock(State())
    private let count = Atomic<Int>(0)
    /// The number of times that a server could take a request while no call waited.
    private let chances = Atomic<UInt64>(0)
    /// The calls that look for a server, whether they wait here or for the end of a back-off.
    private let searches = Atomic<Int>(0)
    private var timer: LoopTimer?
    private let whenIdle: Alarm

    init(maximum: Int, on loop: any EventLoop) {
        (self.maximum, self.loop) = (max(0, maximum), loop)
        whenIdle = Alarm(on: loop)
    }

    deinit {
        guard let timer else { return }
        loop.schedule(LoopClosure { [loop] in loop.arm(timer, at: nil) })
    }

    var waitingCount: Int { count.load(ordering: .relaxed) }

    /// A call asks for it before it looks for a server.
    var moment: UInt64 { chances.load(ordering: .sequentiallyConsistent) }

    /// Waits until a server can take a request, unless one could since `moment`. `turn` is the place of the call among
    /// the waiting ones, which it keeps from wait to wait.
    func wait(until deadline: Instant?, _ turn: inout UInt64?, since moment: UInt64) async -> End {
        // A call that has waited already is not refused.
        let mayBeRefused = turn == nil
        let number = turn ?? state.withLock { $0.nextNumber() }
        turn = number
        return await withContinuation(cancelling: self, number...number) { continuation, cancellation in
            let (end, isFirst) = state.withLock { state -> (End?, Bool) in
                if state.isClosed { return (.closed, false) }
                if cancellation.isRequested { return (.cancelled, false) }
                if mayBeRefused, state.waiters.count >= maximum { return (.full, false) }
                // Who gives a chance from here on sees that a call waits. An earlier chance is seen here.
                count.store(state.waiters.count + 1, ordering: .sequentiallyConsistent)
                if moment != self.moment {
                    count.store(state.waiters.count, ordering: .relaxed)
                    return (.ready, false)
                }
                let earliest = state.deadlines.earliest ?? .distantFuture
                state.insert(continuation, number, until: deadline)
                return (nil, (deadline ?? .distantFuture) < earliest)
            }
            if let end { return continuation.resume(returning: end) }
            if isFirst { armSoon() }
        }
    }

    func waitForServer() async -> End {
        let number = state.withLock { $0.nextNumber() }
        return await withContinuation(cancelling: self, number...number) { continuation, cancellation in
            let end = state.withLock { state -> End? in
                if state.isDraining { return .closed }
                if cancellation.isRequested { return .cancelled }
                if state.offer != .nothing { return .ready }
                state.connecting[number] = continuation
                return nil
            }
            if let end { continuation.resume(returning: end) }
        }
    }

    func cancelWaits(_ numbers: ClosedRange<UInt64>) {
        let number = numbers.lowerBound
        let waiter = state.withLock { state in
            let waiter = state.waiters.removeValue(forKey: number)
            count.store(state.waiters.count, ordering: .relaxed)
            return waiter ?? state.connecting.removeValue(forKey: number)
        }
        waiter?.resume(returning: .cancelled)
    }

    func serversChanged(_ offer: Offer) {
        let now = loop.now
        typealias Changes = (connecting: [Continuation<End>], waiters: [Continuation<End>], isRearmed: Bool)
        let changes = state.withLock { state -> Changes in
            state.offer = offer
            if offer == .nothing {
                state.release = nil
                return ([], [], false)
            }
            let earliest = state.earliest
            chances.wrappingAdd(1, ordering: .sequentiallyConsistent)
            let waiters = state.takeReleased(at: now)
            count.store(state.waiters.count, ordering: .relaxed)
            return (state.takeConnecting(), waiters, state.earliest != earliest)
        }
        for waiter in changes.connecting + changes.waiters { waiter.resume(returning: .ready) }
        if changes.isRearmed { armSoon() }
    }

    /// A call that was woken has gone on. It may have left room for the next one, or have ended without taking any.
    func passOn() {
        // With enough room for all, each is woken in its turn.
        let isNext = state.withLock { state in
            if case .some = state.offer { true } else { false }
        }
        if isNext { requestEnded() }
    }

    /// A server below its limit can take the next request.
    func requestEnded() {
        if count.load(ordering: .sequentiallyConsistent) == 0 {
            chances.wrappingAdd(1, ordering: .sequentiallyConsistent)
            // A call may have begun to wait meanwhile, and not have seen this chance.
            if count.load(ordering: .sequentiallyConsistent) == 0 { return }
        }
        let waiter = state.withLock { state in
            let waiter = state.offer == .nothing ? nil : state.takeFirst()
            count.store(state.waiters.count, ordering: .relaxed)
            return waiter
        }
        waiter?.resume(returning: .ready)
    }

    /// Ends the waits for a server without a request, and refuses further ones.
    func drain() {
        let waiters = state.withLock { state in
            state.isDraining = true
            return state.takeConnecting()
        }
        for waiter in waiters { waiter.resume(returning: .closed) }
    }

    func close() {
        let waiters = state.withLock { state in
            (state.isDraining, state.isClosed, state.release) = (true, true, nil)
            count.store(0, ordering: .relaxed)
            return state.takeConnecting() + state.takeAll()
        }
        for waiter in waiters { waiter.resume(returning: .closed) }
        armSoon()
    }

    func searchBegan() { searches.wrappingAdd(1, ordering: .relaxed) }

    func searchEnded() {
        if searches.wrappingSubtract(1, ordering: .relaxed).newValue == 0 { whenIdle.ring() }
    }

    func waitUntilIdle(until deadline: Instant) async {
        while searches.load(ordering: .relaxed) > 0, loop.now < deadline, !Task.isCancelled {
            await whenIdle.wait(until: deadline)
        }
    }

    func timerFired() {
        let now = loop.turnTime
        let (expired, released) = state.withLock { state in
            let expired = state.takeDue(at: now)
            let isDue = state.release.map { $0.moment <= now } ?? false
            let released = isDue ? state.takeReleased(at: now) : []
            count.store(state.waiters.count, ordering: .relaxed)
            return (expired, released)
        }
        for waiter in expired { waiter.resume(returning: .expired) }
        for waiter in released { waiter.resume(returning: .ready) }
        arm()
    }

    private func armSoon() { loop.schedule(LoopClosure { [self] in arm() }) }

    private func arm() {
        let earliest = state.withLock { $0.earliest }
        if timer == nil, earliest == nil { return }
        let timer = self.timer ?? LoopTimer(target: self)
        self.timer = timer
        loop.arm(timer, at: earliest)
    }
}
