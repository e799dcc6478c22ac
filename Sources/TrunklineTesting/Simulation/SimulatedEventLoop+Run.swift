import Trunkline

/// Running a body until it returns.
extension SimulatedEventLoop {
    func run<Value: Sendable>(
        _ limits: SimulationLimits,
        _ body: @escaping @Sendable () async throws -> Value
    ) throws -> Value {
        precondition(!isCurrent, "a simulation cannot run within itself")
        ownership.enter()
        defer { ownership.leave() }
        if let fault = posts.fault { throw SimulationError.leftTheLoop("before this run, \(fault)") }
        posts.runBegins()
        defer { posts.runEnds() }

        let outcome = Outcome<Value>()
        let task = Task(executorPreference: self) { outcome.result = await Result.catching(body) }
        do {
            try turnUntilSettled(limits) { outcome.result != nil }
        } catch {
            task.cancel()
            unwind(limits) { outcome.result != nil }
            throw error
        }
        guard let result = outcome.result else { preconditionFailure("a run settled before its body returned") }
        return try result.get()
    }

    private func turnUntilSettled(
        _ limits: SimulationLimits,
        isFinished: () -> Bool
    ) throws(SimulationError) {
        let lastStep = steps + limits.steps
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
                throw .stillRunning("the limit of \(limits.steps) steps is reached; " + summary)
            }
            if hasWork {
                turn()
            } else if let next = nextInstant {
                guard next <= deadline else {
                    if isSettling { return }
                    throw .stillRunning("the limit of \(limits.virtualTime) is reached; " + summary)
                }
                time.advance(to: next)
            } else if isSettling {
                return
            } else if !waitForPosts(limits.grace) {
                throw .deadlock(
                    "no job, timer or packet is left, and nothing came from outside in \(limits.grace) of real time; "
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

    /// Waits in real time until another thread posts something; false when none did.
    private func waitForPosts(_ grace: Duration) -> Bool {
        for _ in 0..<max(1, grace.clampedNanoseconds / 1_000_000) {
            if !posts.isEmpty { return true }
            sleepForReal(milliseconds: 1)
        }
        return !posts.isEmpty
    }

    /// What is known of the moment.
    private var summary: String {
        let links = network.links()
        let shown = links.prefix(8).map(\.description).joined(separator: ", ")
        return "it is \(seconds(now)) s, after \(steps) steps; \(network.listeners) listeners; \(links.count) links"
            + (links.isEmpty ? "" : ": " + shown + (links.count > 8 ? ", …" : ""))
    }
}

/// Where a body leaves its result. Sendable: confined to the loop, on which the body's task is pinned.
private final class Outcome<Value: Sendable>: @unchecked Sendable {
    var result: Result<Value, any Error>?
}

extension Result where Failure == any Error {
    fileprivate static func catching(_ body: () async throws -> Success) async -> Result {
        do { return .success(try await body()) } catch { return .failure(error) }
    }
}
