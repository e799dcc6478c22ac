public import TrunklineCore

/// Subscriptions: requests that make servers push, repeated when links and servers change.
extension Cluster {
    /// Which servers of a cluster receive a subscription.
    @nonexhaustive
    public enum SubscriptionScope: String, Sendable, Hashable {
        /// One server. When its link is lost, or it goes away or is removed, the subscription moves to another one.
        case one
        /// All servers, also those that are found later.
        case all
    }

    /// Sends a request and, once a server has accepted it, repeats it so that pushes continue.
    ///
    /// - With `.one`, a server that is ready receives the request. When that server goes away, another one that is
    ///   ready receives it at once, and the push streams of the cluster have an element `.reconnected` after that:
    ///   pushes may be missing. If no other server is ready, the next one to be ready receives it. While a server goes
    ///   away in an orderly way, both may push for a moment. A server that is left out keeps the subscription as long
    ///   as its link is ready.
    /// - With `.all`, one server receives the request, and after it has accepted it, or has not answered for a second,
    ///   every other one that is ready. The call returns when all of them have accepted it. If one of them refuses it,
    ///   the call throws, and nothing is repeated. Servers that have accepted it by then may push until their links
    ///   end: unsubscribe on each of them with a request of your own, if the protocol needs that. A server that is not
    ///   ready yet, or is found later, receives the request in the handshake of its next link
    ///   (``ClientOptions/Handshake/restore``).
    ///
    ///   If a server has not answered when the time is over, and at least one has accepted, the call returns.
    ///   ``Subscription/pendingServers`` names the servers that have not answered. Each of them receives the request
    ///   again: after 1 s, doubling up to 30 s, or in the handshake of its next link.
    ///
    /// Read the pushes from a stream of the cluster; each names its server: ``PushMessage/endpoint``. To unsubscribe,
    /// call ``Subscription/end(sending:timeout:)``: a request that you send yourself may go to another server.
    ///
    /// - Parameters:
    ///   - request: The request that subscribes.
    ///   - scope: Which servers receive it.
    ///   - timeout: The time for the whole call. Default: ``ClientOptions/Requests/timeout`` (8 s). Later moves have
    ///     the default.
    /// - Returns: The subscription, with a server's response. Keep it to end the subscription; discarding it does not
    ///   end it.
    /// - Throws: A ``ClientError``, as ``send(_:timeout:options:)-(Request,_,_)`` does. With `.all`, its fate covers
    ///   all servers, and its message names those that have accepted.
    public nonisolated func subscribe(
        _ request: Request,
        on scope: SubscriptionScope,
        timeout: Timeout = .default
    ) async throws(ClientError) -> Subscription {
        try await subscribe(ClusterSubscriptions.Wanted(request: request, expectsResponse: true), scope, timeout)
    }

    /// Sends a one-way message that subscribes, and repeats it so that pushes continue.
    ///
    /// Otherwise the method behaves like ``subscribe(_:on:timeout:)-(Request,_,_)``, and on each server like
    /// ``Client/subscribe(posting:timeout:)``.
    public nonisolated func subscribe(
        posting request: Request,
        on scope: SubscriptionScope,
        timeout: Timeout = .default
    ) async throws(ClientError) -> Subscription {
        try await subscribe(ClusterSubscriptions.Wanted(request: request, expectsResponse: false), scope, timeout)
    }

    /// Sends a typed request and, once a server has accepted it, repeats it so that pushes continue.
    ///
    /// If the response cannot be decoded, the subscription ends on the cluster's side and the call throws. Otherwise
    /// the method behaves like ``subscribe(_:on:timeout:)-(Request,_,_)``.
    public nonisolated func subscribe<Typed: TypedRequest>(
        _ request: Typed,
        on scope: SubscriptionScope,
        timeout: Timeout = .default
    ) async throws(ClientError) -> (subscription: Subscription, response: Typed.Reply) {
        do throws(ClientError) {
            let subscription = try await subscribe(Request(request), on: scope, timeout: timeout)
            return (subscription, try await request.read(subscription, for: self))
        } catch {
            throw error.named(Typed.errorName)
        }
    }

    /// Subscribes on one server. See ``subscribe(_:on:timeout:)-(Request,_,_)``.
    public nonisolated func subscribe(
        _ request: Request,
        timeout: Timeout = .default
    ) async throws(ClientError) -> Subscription {
        try await subscribe(request, on: .one, timeout: timeout)
    }

    /// Subscribes on one server with a one-way message. See ``subscribe(posting:on:timeout:)``.
    public nonisolated func subscribe(
        posting request: Request,
        timeout: Timeout = .default
    ) async throws(ClientError) -> Subscription {
        try await subscribe(posting: request, on: .one, timeout: timeout)
    }

    private nonisolated func subscribe(
        _ wanted: ClusterSubscriptions.Wanted,
        _ scope: SubscriptionScope,
        _ timeout: Timeout
    ) async throws(ClientError) -> Subscription {
        switch scope {
        case .one: try await subscribeOnOne(wanted, timeout)
        case .all: try await subscribeOnAll(wanted, timeout)
        }
    }

    private nonisolated func subscribeOnOne(
        _ wanted: ClusterSubscriptions.Wanted,
        _ timeout: Timeout
    ) async throws(ClientError) -> Subscription {
        var call = try call(timeout, CallOptions(), at: loop.now)
        call.provesNothing()
        let (place, link) = try await perform(&call) { _ in
            wanted.end
        } _: { client, timeout, _ throws(ClientError) in
            (try await wanted.subscribe(client, timeout), client.memberNumber)
        }
        let number = await keep(ClusterSubscriptions.Entry(wanted, .one, [link: place], on: loop))
        return Subscription(place.response, number, of: self)
    }

    func keep(_ entry: ClusterSubscriptions.Entry) -> UInt64 {
        let number = servers.nextNumber()
        subscriptions.add(entry, number)
        // The server may have gone away meanwhile.
        if !isPlaced(entry) { subscriptions.lose(number) }
        moveSubscriptions()
        return number
    }

    func moveSubscriptions() {
        guard lifecycle == .open, !subscriptions.lost.isEmpty else { return }
        for number in subscriptions.takeLost(offered: offer, at: loop.now) {
            guard let entry = subscriptions.all[number], entry.mover == nil, !entry.isEnding, !isPlaced(entry) else {
                continue
            }
            let retry = entry.retry
            // Ends when a server has the subscription, when no server is ready, or when the subscription or the cluster
            // ends, which cancels it. It does not keep the cluster alive while it waits.
            subscriptions.all[number]?.mover = Task(executorPreference: callExecutor) { [weak self, loop] in
                let backoff = Backoff(base: .seconds(1))
                var round = 0
                while await self?.tryToMove(number) == false {
                    await retry.wait(until: loop.now.advanced(by: backoff.ceiling(round: round)))
                    round += 1
                }
            }
        }
    }

    private func isPlaced(_ entry: ClusterSubscriptions.Entry) -> Bool {
        entry.places.keys.contains { servers.link($0)?.isReady == true }
    }

    /// Returns whether there is nothing left to do, until the next change of the servers.
    private func tryToMove(_ number: UInt64) async -> Bool {
        while true {
            guard lifecycle == .open, let entry = subscriptions.all[number], !entry.isEnding, !isPlaced(entry) else {
                subscriptions.all[number]?.mover = nil
                return true
            }
            guard servers.all.contains(where: \.isReady) else {
                // The next server that is ready moves it.
                subscriptions.all[number]?.mover = nil
                subscriptions.lose(number)
                return true
            }
            if let (id, place) = entry.places.first {
                // A client that has its link again has repeated the subscription, and says so soon.
                if let link = servers.link(id)?.link, let repeated = place.number,
                    await !link.client.endIfNotReady(repeated)
                {
                    subscriptions.all[number]?.mover = nil
                    subscriptions.lose(number)
                    return true
                }
                subscriptions.remove(number, from: id)
                continue
            }
            let began = loop.now
            guard let link = picker.pick(Wish(now: began, probing: .never)) else { return false }
            // A move is no call.
            counts.withLock { $0.countRepeats(1) }
            do throws(ClientError) {
                let place = try await entry.wanted.subscribe(link.client, .default)
                end(entry.wanted.end, on: link, from: began, isMeasured: false)
                subscriptions.place(place, on: link.id, number)
                listeners.noteReconnected()
                tell(.subscriptionMoved(link.member.endpoint))
            } catch {
                end(end(of: error), on: link, from: began, isMeasured: false)
                if error.fate == .unknown { subscriptions.noteUnsure(link.id, number) }
                if error.fate == .notSent, !link.isReady { continue }
                if !Task.isCancelled { tell(.subscriptionFailed(link.member.endpoint, error)) }
                return false
            }
        }
    }

    /// Registers a subscription with a client for its next link. Returns false if a link is ready.
    nonisolated func registerIfNotReady(
        _ number: UInt64,
        _ wanted: ClusterSubscriptions.Wanted,
        on link: MemberLink
    ) async -> Bool {
        let client = link.client
        guard
            let registered = await client.rememberIfNotReady(wanted.request, expectsResponse: wanted.expectsResponse)
        else { return false }
        await add(Subscription(nil, registered, of: client), of: link.id, to: number)
        return true
    }

    func add(_ place: Subscription, of link: UInt64, to number: UInt64) async {
        guard subscriptions.all[number] != nil else { return await place.end() }
        subscriptions.place(place, on: link, number)
    }

    /// Connects the client of a new server, after it knows the subscriptions on all servers.
    func connect(_ link: MemberLink, isFirst: Bool) {
        let wanted = isFirst ? subscriptions.all.filter { $0.value.scope == .all }.sorted { $0.key < $1.key } : []
        guard !wanted.isEmpty else { return link.client.connectSoon() }
        // Takes two steps on the event loop of the client, which it does not keep alive longer than its server.
        Task(executorPreference: loop.taskExecutor) {
            for (number, entry) in wanted { _ = await self.registerIfNotReady(number, entry.wanted, on: link) }
            link.client.connectSoon()
        }
    }
}

extension Cluster: SubscriptionOwner {
    package nonisolated func end(_ subscription: UInt64?) async -> (known: [Client], unsure: [Client]) {
        guard let subscription else { return ([], []) }
        return await endKept(subscription)
    }

    private func endKept(_ number: UInt64) async -> (known: [Client], unsure: [Client]) {
        // What is under way is cancelled: a server that hangs must not delay the end. Afterwards it is known which
        // servers have the subscription, or may have it.
        let tasks = subscriptions.beginEnd(of: number)
        for task in tasks { task.cancel() }
        for task in tasks { await task.value }
        guard let entry = subscriptions.remove(number) else { return ([], []) }
        var known: [Client] = []
        for (link, place) in entry.places.sorted(by: { $0.key < $1.key }) {
            await place.end()
            if let link = servers.link(link), link.isReady { known.append(link.link.client) }
        }
        let unsure = entry.unsure.subtracting(entry.places.keys).sorted().compactMap { link in
            servers.link(link).flatMap { $0.isReady ? $0.link.client : nil }
        }
        return (known, unsure)
    }
}

struct ClusterSubscriptions {
    struct Wanted: Sendable {
        let request: Request
        let expectsResponse: Bool

        var end: ClusterMember.End { expectsResponse ? .answered : .accepted }

        /// Concurrent, because it calls interceptors, which must not run on an event loop: see `callExecutor`.
        @concurrent
        func subscribe(_ client: Client, _ timeout: Timeout) async throws(ClientError) -> Subscription {
            try await expectsResponse
                ? client.subscribe(request, timeout: timeout)
                : client.subscribe(posting: request, timeout: timeout)
        }
    }

    struct Entry {
        let wanted: Wanted
        let scope: Cluster.SubscriptionScope
        var places: [UInt64: Subscription]
        var mover: Task<Void, Never>?
        var latecomers: [Task<Void, Never>] = []
        /// The links on whose servers a request has failed that may have arrived.
        var unsure: Set<UInt64> = []
        let retry: Alarm
        var isEnding = false

        init(
            _ wanted: Wanted,
            _ scope: Cluster.SubscriptionScope,
            _ places: [UInt64: Subscription],
            on loop: any EventLoop
        ) {
            (self.wanted, self.scope, self.places) = (wanted, scope, places)
            retry = Alarm(on: loop)
        }
    }

    var all: [UInt64: Entry] = [:]
    private var byLink: [UInt64: Set<UInt64>] = [:]
    /// Subscriptions on one server whose link may have been lost.
    private(set) var lost: Set<UInt64> = []
    private var release: CrowdRelease?

    func isUsed(_ link: UInt64) -> Bool { byLink[link] != nil }

    mutating func add(_ entry: Entry, _ number: UInt64) {
        all[number] = entry
        for link in entry.places.keys { byLink[link, default: []].insert(number) }
    }

    mutating func remove(_ number: UInt64) -> Entry? {
        guard let entry = all.removeValue(forKey: number) else { return nil }
        for link in entry.unsure.union(entry.places.keys) { leave(link, number) }
        lost.remove(number)
        return entry
    }

    mutating func beginEnd(of number: UInt64) -> [Task<Void, Never>] {
        all[number]?.isEnding = true
        return all[number].map { ($0.mover.map { [$0] } ?? []) + $0.latecomers } ?? []
    }

    /// The request has failed, and may have arrived.
    mutating func noteUnsure(_ link: UInt64, _ number: UInt64) {
        guard all[number] != nil else { return }
        all[number]?.unsure.insert(link)
        byLink[link, default: []].insert(number)
    }

    mutating func place(_ place: Subscription, on link: UInt64, _ number: UInt64) {
        guard all[number] != nil else { return }  // the cluster has ended
        all[number]?.places[link] = place
        byLink[link, default: []].insert(number)
    }

    mutating func remove(_ number: UInt64, from link: UInt64) {
        all[number]?.places[link] = nil
        leave(link, number)
    }

    private mutating func leave(_ link: UInt64, _ number: UInt64) {
        byLink[link]?.remove(number)
        if byLink[link]?.isEmpty == true { byLink[link] = nil }
    }

    /// A link was lost, or takes no further request.
    mutating func loseLink(_ link: UInt64) {
        for number in (byLink[link] ?? []).sorted() {
            // Its next session knows only what its handshake sends.
            if all[number]?.unsure.remove(link) != nil, all[number]?.places[link] == nil { leave(link, number) }
            lose(number)
        }
    }

    mutating func lose(_ number: UInt64) { if all[number]?.scope == .one { lost.insert(number) } }

    var nextMove: Instant? { lost.isEmpty ? nil : release?.moment }

    /// Oldest first, as many as calls that wait would go on. Otherwise all would move to the first server that is
    /// ready, and stay there.
    mutating func takeLost(offered offer: WaitingCalls.Offer, at now: Instant) -> [UInt64] {
        let (servers, share): (Int, Double)
        switch offer {
        case .nothing:
            release = nil
            return []
        case .some, .servers:
            release = nil
            return exchange(&lost, with: []).sorted()
        case .someServers(let count, let part): (servers, share) = (count, part)
        }
        let numbers = lost.sorted()
        var current = release ?? CrowdRelease(at: now)
        let taken = Array(numbers.prefix(current.next(of: numbers.count, to: servers, share: share, at: now)))
        lost.subtract(taken)
        release = lost.isEmpty ? nil : current
        return taken
    }

    mutating func forget(_ link: UInt64) {
        for number in byLink.removeValue(forKey: link) ?? [] {
            all[number]?.places[link] = nil
            all[number]?.unsure.remove(link)
        }
    }

    func cancelMoves() {
        for entry in all.values {
            entry.mover?.cancel()
            for task in entry.latecomers { task.cancel() }
        }
    }
}

extension Client {
    fileprivate nonisolated var memberNumber: UInt64 { connection.options.membership?.client ?? 0 }
}
