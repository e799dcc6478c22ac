import TrunklineCore

extension SimulatedEventLoop {
    /// The caller of `run` creates the task of `body`, so that it inherits the caller's task-local values: a test
    /// library finds the current test there.
    func run<Value: Sendable>(_ limits: SimulationLimits, _ body: SimulatedBody<Value>) throws -> Value {
        precondition(!isCurrent, "a simulation cannot be run within itself")
        ownership.enter()
        defer { ownership.leave() }
        if let fault = posts.fault { throw SimulationError.leftTheLoop("before this run, \(fault)") }
        posts.runBegins()
        defer { posts.runEnds() }

        do {
            try turnUntilSettled(limits) { body.result != nil }
        } catch {
            body.cancel()
            unwind(limits) { body.result != nil }
            throw error
        }
        guard let result = body.result else { preconditionFailure("a run settled before its body returned") }
        return try result.get()
    }

    private func turnUntilSettled(
        _ limits: SimulationLimits,
        isFinished: () -> Bool
    ) throws(SimulationError) {
        let (sum, overflow) = steps.addingReportingOverflow(max(0, limits.steps))
        let lastStep = overflow ? .max : sum
        var deadline = now.advanced(by: limits.virtualTime)
        var isSettling = false
        while true {
            if !posts.isEmpty {
                absorbPosts()
                if let fault = posts.fault { throw .leftTheLoop(fault + "; " + summary) }
            }
            if !isSettling, isFinished() {
                isSettling = true
                deadline = min(deadline, now.advanced(by: limits.settling))
            }
            guard steps < lastStep else {
                if isSettling { return }
                throw .stillRunning("the limit of \(limits.steps) steps was reached; " + summary)
            }
            if hasWork {
                turn()
            } else if let next = nextInstant {
                guard next <= deadline else {
                    if isSettling { return }
                    throw .stillRunning("the limit of \(limits.virtualTime) of virtual time was reached; " + summary)
                }
                time.advance(to: next)
            } else if isSettling {
                return
            } else if !waitForPosts(limits.grace) {
                throw .deadlock(
                    "no job, timer or packet is left, and no other thread posted work in \(limits.grace) of real time; "
                        + summary
                )
            }
        }
    }

    /// Lets the cancelled body and its tasks end if they can, so that an abandoned run leaks as little as possible.
    private func unwind(_ limits: SimulationLimits, isFinished: () -> Bool) {
        let lastStep = steps + 100_000
        let deadline = now.advanced(by: limits.settling)
        while steps < lastStep {
            absorbPosts()
            if hasWork {
                turn()
            } else if let next = nextInstant, next <= deadline {
                time.advance(to: next)
            } else if isFinished() || !waitForPosts(limits.grace) {
                return
            }
        }
    }

    private func waitForPosts(_ grace: Duration) -> Bool {
        for _ in 0..<max(1, grace.clampedNanoseconds / 1_000_000) {
            if !posts.isEmpty { return true }
            sleepForReal(milliseconds: 1)
        }
        return !posts.isEmpty
    }

    private var summary: String {
        let links = network.links()
        let shown = links.prefix(8).map(\.description).joined(separator: ", ")
        return "virtual time \(seconds(now)) s, \(steps) steps, \(network.listeners) listeners, \(links.count) links"
            + (links.isEmpty ? "" : ": " + shown + (links.count > 8 ? ", …" : ""))
    }
}

/// Unchecked `Sendable`: confined to the loop, on which the body's task runs.
final class SimulatedBody<Value: Sendable>: @unchecked Sendable {
    private(set) var result: Result<Value, any Error>?
    private var task: Task<Void, Never>?

    init(on loop: SimulatedEventLoop, _ body: @escaping @Sendable () async throws -> Value) {
        // Unstructured, because the thread of the run waits for it. It ends before the run does, or is cancelled.
        task = Task(executorPreference: loop) {
            do { self.result = .success(try await body()) } catch { self.result = .failure(error) }
        }
    }

    func cancel() { task?.cancel() }
}
