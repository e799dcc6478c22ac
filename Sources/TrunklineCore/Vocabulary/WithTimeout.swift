/// Runs `operation` with one deadline over everything that it does, and cancels it when the deadline passes.
///
/// ```swift
/// try await withTimeout(.seconds(2)) {
///     async let a = client.send(first), b = client.send(second)
///     return try await (a, b)
/// }
/// ```
///
/// The function returns only when `operation` has returned. So an operation that ignores cancellation delays the
/// return. Unlike the `timeout` of a call, the deadline may cancel requests whose responses have arrived, if the
/// process was stopped when it passed (<doc:Guarantees>). `operation` runs in a child task. See
/// <doc:Requests#Deadlines>.
///
/// - Parameters:
///   - timeout: The time that `operation` has, counted from the call; at most a hundred years. If it is zero or
///     negative, the function throws `timedOut`, fate `notSent`, and does not run `operation`.
///   - clock: The clock that measures the time. In a simulation, pass `network.clock`: other clocks do not follow
///     virtual time.
///   - operation: The code to run.
/// - Returns: The result of `operation`. If it succeeds although it was cancelled, its result is returned.
/// - Throws: If the deadline passes, a `ClientError` with the code `timedOut` and the fate of the request that was
///   cancelled. If `operation` threw an error that is not a `ClientError`, the fate is `unknown` and that error is the
///   `cause`. Otherwise, the error that `operation` throws.
public func withTimeout<Value: Sendable>(
    _ timeout: Duration,
    clock: some Clock<Duration> = ContinuousClock(),
    _ operation: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    guard timeout > .zero else {
        throw ClientError.expiredUnsent(timeout)
    }
    return try await withThrowingTaskGroup(of: Value?.self) { group in
        group.addTask { try await operation() }
        group.addTask {
            // Cancelled if the operation was faster.
            try? await clock.sleep(for: min(timeout, .century))
            return nil
        }
        defer { group.cancelAll() }
        if let first = try await group.next(), let value = first { return value }
        // The sleep also ends early when the caller is cancelled. Then the outcome of the operation counts.
        let isExpired = !Task.isCancelled
        group.cancelAll()
        let expired = "no result within \(timeout)"
        do {
            // The operation may still have succeeded. Then its result must not be lost.
            if let last = try await group.next(), let value = last { return value }
        } catch let error as ClientError where isExpired && error.code == .cancelled {
            throw error.changed { ($0.code, $0.message, $0.response) = (.timedOut, expired, nil) }
        } catch  where isExpired && !(error is ClientError) {
            throw ClientError(.timedOut, .unknown, expired, cause: error is CancellationError ? nil : error)
        }
        throw ClientError(.timedOut, .unknown, expired)
    }
}
