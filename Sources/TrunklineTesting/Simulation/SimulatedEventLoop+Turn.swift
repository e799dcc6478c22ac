import TrunklineCore

/// One turn: jobs and posted work → readiness → timers → end-of-turn work.
extension SimulatedEventLoop {
    var hasWork: Bool {
        !ready.isEmpty || !endOfTurn.isEmpty || !nextTurn.isEmpty || network.hasNews
            || nextInstant.map { $0 <= now } ?? false
    }

    var nextInstant: Instant? { [timers.next, network.nextArrival, stoppedUntil].compactMap { $0 }.min() }

    func turn() {
        turns += 1
        steps += 1
        turnTime = now
        for work in exchange(&nextTurn, with: []) { ready.append(.work(work)) }
        // A real loop finds more or less of what happens at about the same time. At least every fourth turn takes
        // everything, so that nothing waits forever.
        let takesAll = turns % 4 == 0 || random.happens(0.5)
        if takesAll { runAllReady() } else { runSomeReady() }
        steps += network.deliverDue()
        // A job may have called `stall(for:)`.
        endPart()
        endStop()
        // See `EventLoop`: what the sockets hold is read before timers fire.
        let isTimerDue = timers.next.map { $0 <= turnTime } ?? false
        tellOfReadiness(all: takesAll || isTimerDue)
        if isTimerDue {
            // A simulated read may return less than there is. Bounded: a link may have used up its share of the turn.
            for _ in 0..<100 where network.hasNews { tellOfReadiness(all: true) }
            fireTimers()
        }
        runEndOfTurn()
        // A codec may have called it.
        endPart()
    }

    private func endPart() {
        if stoppedUntil == nil {
            var turn = LoopDelay.Turn(from: turnTime, to: now)
            turn.decoding = decoding?.of(turnTime)
            note(LoopDelay(turn))
        }
        turnTime = now
    }

    private func endStop() {
        guard let end = stoppedUntil, end <= now else { return }
        stoppedUntil = nil
        note(LoopDelay(.stopped, from: stoppedSince, to: now))
        for link in exchange(&withheld, with: []) { network.attend(link, .client) }
    }

    private func runAllReady() {
        var batch = ReadyList()
        swap(&batch, &ready)
        while let entry = batch.take(using: &random) { run(entry, of: batch.count) }
    }

    private func runSomeReady() {
        guard !ready.isEmpty else { return }
        for _ in 0...random.below(ready.count) {
            guard let entry = ready.take(using: &random) else { return }
            run(entry, of: ready.count)
        }
    }

    private func run(_ entry: ReadyList.Entry, of others: Int) {
        steps += 1
        switch entry {
        case .job(let job):
            network.note(.job, 0, others)
            unsafe job.runSynchronously(
                isolatedTo: asUnownedSerialExecutor(),
                taskExecutor: asUnownedTaskExecutor()
            )
        case .work(let work):
            network.note(.work, 0, others)
            work.runOnLoop()
        }
    }

    private func tellOfReadiness(all: Bool) {
        guard network.hasNews else { return }
        var listed = network.takeListed()
        while !listed.isEmpty {
            listed.swapAt(random.below(listed.count), listed.count - 1)
            let entry = listed.removeLast()
            steps += 1
            switch entry {
            case .port(let port): port.accept(on: self)
            case .end(let link, .client) where stoppedUntil != nil: withheld.append(link)
            case .end(let link, let side):
                if all || random.happens(0.75), link.hasNews(for: side) { link.tell(side) }
                network.attend(link, side)
            }
        }
    }

    private func fireTimers() {
        let due = turnTime
        // Bounded: a timer that is re-armed for the same instant again and again waits for the next turn.
        for _ in 0..<1000 {
            guard let timer = timers.popDue(at: due) else { return }
            steps += 1
            if let stoppedUntil, !timer.isOfTest {
                timers.arm(timer, at: stoppedUntil)
                continue
            }
            network.note(.timer)
            timer.fire()
        }
    }

    /// What this work schedules runs at the end of the next turn.
    private func runEndOfTurn() {
        let batch = endOfTurn
        endOfTurn = []
        for work in batch {
            steps += 1
            network.note(.endOfTurn)
            work.runOnLoop()
        }
    }
}

extension LoopTimer {
    fileprivate var isOfTest: Bool { target is LoopbackServer || target is Sleeper }
}
