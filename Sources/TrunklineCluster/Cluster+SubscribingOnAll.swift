import Synchronization
import TrunklineCore

/// Subscriptions on all servers. One server is asked first: without a response, it is not known whether servers accept
/// the request at all, and a handshake that contains it would fail.
extension Cluster {
    private static let timeForFirst = Duration.seconds(1)
    /// How long a server whose link was lost may take to notice that, before it is asked again.
    private static let pause = Duration.milliseconds(10)

    private struct Progress {
        var number: UInt64?
        var response: Response?
        var accepted: [Endpoint] = []
        var late: [(link: MemberLink, error: ClientError)] = []
        var failure: ClientError?
    }

    private enum Event: Sendable {
        case timeForFirstIsOver
        /// Without a subscription, the server receives the request in its next handshake.
        case ended(MemberLink, Result<Subscription?, ClientError>)
    }

    nonisolated func subscribeOnAll(
        _ wanted: ClusterSubscriptions.Wanted,
        _ timeout: Timeout
    ) async throws(ClientError) -> Subscription {
        var call = try call(timeout, CallOptions(), at: loop.now)
        call.isPart = true
        call.provesNothing()
        do throws(ClientError) {
            while true {
                let progress = await ask(try await nextLink(for: &call), wanted, call)
                let pending = progress.late.map(\.link.member.endpoint)
                if let failure = progress.failure {
                    if let number = progress.number { _ = await end(number) }
                    throw failure.ofSubscription(acceptedBy: progress.accepted)
                }
                if let number = progress.number {
                    await askAgain(progress.late, wanted, number)
                    return Subscription(progress.response, number, of: self, pending: pending)
                }
                for (link, error) in progress.late {
                    call.earlierFate = error.fate.after(call.earlierFate)
                    call.tried.append(link.member.id)
                }
                if let latest = progress.late.last?.error, call.deadline ?? .distantFuture <= loop.now { throw latest }
            }
        } catch {
            let error = error.after(call.earlierFate)
            callFailed(error, wasPlaced: call.isPlaced)
            throw error
        }
    }

    /// Asks one server, and when it has accepted, all others. Returns when all have answered, or cannot be reached.
    private nonisolated func ask(
        _ first: MemberLink,
        _ wanted: ClusterSubscriptions.Wanted,
        _ call: ClusterCall
    ) async -> Progress {
        let (begun, deadline) = (loop.now, call.deadline ?? .distantFuture)
        return await withTaskGroup(of: Event.self) { group in
            var (progress, asked, underWay, isFirstCounted) = (Progress(), Set<UInt64>(), 0, true)
            func ask(_ link: MemberLink, after wait: Duration = .zero) {
                asked.insert(link.member.id)
                underWay += 1
                let number = progress.number
                group.addTask { .ended(link, await self.answer(of: link, wanted, number, call, after: wait)) }
            }
            ask(first)
            group.addTask { [loop] in
                await loop.sleep(until: min(deadline, begun.advanced(by: Self.timeForFirst)))
                return .timeForFirstIsOver
            }
            while underWay > 0, let event = await group.next() {
                guard case .ended(let link, let answer) = event else {
                    if progress.number != nil || progress.failure != nil { continue }
                    for link in await firstLinks where link.isReady && !asked.contains(link.member.id) { ask(link) }
                    continue
                }
                underWay -= 1
                if link === first, exchange(&isFirstCounted, with: false) { endFirst(link, answer, wanted, begun) }
                switch answer {
                case .success(nil): break
                case .success(let place?):
                    progress.accepted.append(link.member.endpoint)
                    if let number = progress.number {
                        await add(place, of: link.id, to: number)
                        continue
                    }
                    progress.response = place.response
                    progress.number = await keep(ClusterSubscriptions.Entry(wanted, .all, [link.id: place], on: loop))
                    if progress.failure != nil { continue }
                    for link in await firstLinks where !asked.contains(link.member.id) { ask(link) }
                    for (link, error) in exchange(&progress.late, with: []) {
                        if error.isOfLostLink { ask(link) } else { progress.late.append((link, error)) }
                    }
                case .failure(let error) where error.code == .closed && !isClosing.load(ordering: .relaxed): break
                case .failure(let error) where error.refusesSubscription:
                    progress.failure = progress.failure ?? ofCluster(error, link)
                    group.cancelAll()
                case .failure(let error) where error.isOfLostLink && progress.number != nil && loop.now < deadline:
                    ask(link, after: Self.pause)
                case .failure(let error): progress.late.append((link, ofCluster(error, link)))
                }
            }
            group.cancelAll()
            return progress
        }
    }

    private var firstLinks: [MemberLink] { servers.all.compactMap { $0.links.first?.link } }

    /// If the subscription has a number and the link is not ready, the server receives the request in its next
    /// handshake.
    private nonisolated func answer(
        of link: MemberLink,
        _ wanted: ClusterSubscriptions.Wanted,
        _ number: UInt64?,
        _ call: ClusterCall,
        after wait: Duration
    ) async -> Result<Subscription?, ClientError> {
        if wait > .zero { await loop.sleep(until: loop.now.advanced(by: wait)) }
        if let number, await registerIfNotReady(number, wanted, on: link) { return .success(nil) }
        do throws(ClientError) {
            return .success(try await wanted.subscribe(link.client, call.timeLeft(at: loop.now)))
        } catch {
            return .failure(error)
        }
    }

    /// Only the first server's request is counted on its link.
    private nonisolated func endFirst(
        _ link: MemberLink,
        _ answer: Result<Subscription?, ClientError>,
        _ wanted: ClusterSubscriptions.Wanted,
        _ begun: Instant
    ) {
        switch answer {
        case .success: end(wanted.end, on: link, from: begun, isMeasured: false)
        case .failure(let error): end(end(of: error), on: link, from: begun, isMeasured: false)
        }
    }

    private func askAgain(
        _ late: [(link: MemberLink, error: ClientError)],
        _ wanted: ClusterSubscriptions.Wanted,
        _ number: UInt64
    ) {
        for (link, error) in late {
            if error.fate == .unknown { subscriptions.noteUnsure(link.id, number) }
            tell(.subscriptionFailed(link.member.endpoint, error))
            // Ends when the server has accepted or is removed, or when the subscription or the cluster ends, which
            // cancels it. It does not keep the cluster alive while it waits.
            let task = Task(executorPreference: callExecutor) { [weak self, loop] in
                let backoff = Backoff(base: .seconds(1))
                var round = 0
                repeat {
                    await loop.sleep(until: loop.now.advanced(by: backoff.ceiling(round: round)))
                    round += 1
                } while await self?.hasAccepted(number, wanted, on: link) == false
            }
            subscriptions.all[number]?.latecomers.append(task)
        }
    }

    private func hasAccepted(
        _ number: UInt64,
        _ wanted: ClusterSubscriptions.Wanted,
        on link: MemberLink
    ) async -> Bool {
        guard lifecycle == .open, subscriptions.all[number]?.isEnding == false, servers.link(link.id) != nil else {
            return true
        }
        // Its next handshake has the request. If the server refuses it there, the attempt to connect fails.
        if await registerIfNotReady(number, wanted, on: link) { return true }
        do throws(ClientError) {
            let place = try await wanted.subscribe(link.client, .default)
            await add(place, of: link.id, to: number)
            listeners.noteReconnected()
            tell(.subscriptionAccepted(link.member.endpoint))
            return true
        } catch {
            if error.fate == .unknown { subscriptions.noteUnsure(link.id, number) }
            if !Task.isCancelled { tell(.subscriptionFailed(link.member.endpoint, error)) }
            return false
        }
    }
}

extension ClientError {
    /// The server receives the request on its next link.
    fileprivate var isOfLostLink: Bool { code == .connectionLost || code == .unavailable }

    /// A server that has only not answered is asked again.
    fileprivate var refusesSubscription: Bool {
        switch code {
        case .rejected, .invalidRequest, .invalidArgument, .invalidResponse, .cancelled, .closed: true
        default: false
        }
    }

    fileprivate func ofSubscription(acceptedBy servers: [Endpoint]) -> ClientError {
        if servers.isEmpty { return self }
        let names = servers.prefix(8).map(\.description).joined(separator: ", ")
        let others = servers.count > 8 ? " and \(servers.count - 8) more" : ""
        return after(.answered).changed { $0.message += "; the subscription was accepted by \(names)\(others)" }
    }
}
