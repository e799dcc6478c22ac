/// Judging the ready link by its requests: whether another one should take its place, and why requests wait.
extension LinkRequests {
    private var whatHoldsOthersBack: String? {
        guard links.inFlight < links.maximumInFlight else {
            let abandoned = links.abandonedInFlight
            let givenUp = abandoned == 0 ? "" : ", \(abandoned) of them abandoned"
            let requests = Quantity.count(links.inFlight, "request is", "requests are")
            return "\(requests) in flight (requests.maximumInFlight)\(givenUp)"
        }
        if let ready, links.isWindowFull {
            let count = ready.state.machine.count
            let requests = Quantity.count(count, "request is", "requests are")
            return "\(requests) unanswered (requests.datagramWindow, now \(ready.window.size))"
        }
        if let ready, ready.state.machine.isHeld {
            let isCancelling = cancellations.contains { $0.session == ready.session }
            return isCancelling
                ? "an abandoned request is being cancelled (requests.cancelling)"
                : "a request is in flight that no other may follow"
        }
        if awaitsAlone { return "a request that must go out alone waits for those in flight" }
        let mayBeChannel = rules.isByChannel && ready?.state.isBelowWatermark(rules) == true
        return links.serialShortage ?? (mayBeChannel ? "earlier requests of its channel are unanswered" : nil)
    }

    /// Returns what kept the request from going out. If responses are matched in order and it waited for abandoned
    /// requests, it counts as written after them. `isDelayed`: it waited between two tries, so not for a response.
    func timedOutWaiting(isDelayed: Bool) -> String? {
        guard let ready else { return nil }
        let isBehind = rules.isInOrder && links.abandonedInFlight > 0 && links.isAtMaximum
        let hasSilence = judge.isSilent || ready.state.machine.isToBeJudged
        if isBehind || !isDelayed && hasSilence {
            ready.state.machine.noteTimedOutUnsent(asIfWritten: isBehind)
        }
        return whatHoldsOthersBack
    }

    /// Returns when to check again, for serials whose quarantine ends and for a link to be replaced.
    func look(isWaiting: Bool, watchesErrors: Bool) -> Instant? {
        let now = loop.turnTime
        let beginning = judge.beginLook(watchesErrors: watchesErrors, at: now)
        if beginning.isErrorRateExceeded { host.leaveEndpoint(because: .errorRate, judge.errorRateText) }
        guard let ready = links.onlyReady else {
            if let ready {
                look(at: ready, isToBeJudged: ready.state.machine.isToBeJudged, isWaiting: isWaiting, at: now)
            }
            return nextLook
        }
        let (isToBeJudged, quarantineEnd) = ready.state.machine.look()
        if isToBeJudged || isWaiting || beginning.isShort {
            look(at: ready, isToBeJudged: isToBeJudged, isWaiting: isWaiting, at: now)
            return nextLook
        }
        return quarantineEnd
    }

    private func look(at link: Link, isToBeJudged: Bool, isWaiting: Bool, at now: Instant) {
        if isToBeJudged {
            // While the client itself does not read or run, timeouts say nothing about the server.
            let verdict = judge.judgeAnswers(
                on: &link.state.machine,
                counts: !port.isPaused && !context.isServerExcused,
                maximumStalls: options.liveness.maximumStalls,
                at: now
            )
            host.liveness.arm()
            if let verdict { host.leaveEndpoint(because: verdict.departure, verdict.explanation) }
        }
        guard isWaiting || judge.replacement.isShort, let ready else { return }
        let use = use(of: ready)
        let policy = options.reconnecting.policy ?? NoRetries()
        guard
            let verdict = judge.judgeShortage(
                on: &ready.state.machine,
                use,
                isWaiting: isWaiting,
                at: now,
                policy
            )
        else { return }
        host.leaveEndpoint(because: verdict.departure, verdict.explanation)
    }

    private func use(of link: Link) -> LinkUse {
        LinkUse(
            inFlight: links.inFlight,
            maximumInFlight: links.maximumInFlight,
            isStrict: links.isStrict,
            isByChannel: rules.isByChannel,
            awaitsAlone: awaitsAlone,
            isBelowWatermark: link.state.isBelowWatermark(rules),
            isCancelling: cancellations.contains { $0.session == link.session }
        )
    }

    private var nextLook: Instant? {
        guard let again = judge.replacement.lookAgainAt else { return links.nextQuarantineEnd }
        return min(links.nextQuarantineEnd ?? again, again)
    }
}
