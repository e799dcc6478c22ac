/// Runs `operation` and cancels it when it takes longer than `timeout`, counted from the call: one deadline over
/// everything that it does.
///
/// ```swift
/// try await withTimeout(.seconds(2)) {
///     async let a = client.send(first), b = client.send(second)
///     return try await (a, b)
/// }
/// ```
///
/// Requests inside are cancelled as by their task: cancel frames go out. It returns when `operation` has, so an
/// operation that does not heed cancellation delays the expiry; everything in this package heeds it.
///
/// The closure is `@Sendable`: a `var` must be a constant by then, or be captured (`{ [request] in … }`).
///
/// At zero or below it fails at once and `operation` is not run. `operation` runs in a child task: on an actor, say so
/// (`{ @MainActor in … }`).
///
/// - Parameter clock: What measures the time. In a simulation pass `network.clock`, or the time will not pass.
/// - Throws: `timedOut` on expiry, with the fate of the request that was cancelled by it (`unknown` if the operation
///   threw an error of another kind, which is then the `cause`); otherwise what `operation` throws.
public func withTimeout<Value: Sendable>(
    _ timeout: Duration,
    clock: some Clock<Duration> = ContinuousClock(),
    _ operation: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    guard timeout > .zero else {
        throw ClientError(.timedOut, .notSent, "timeout must be positive, not \(timeout)")
    }
    return try await withThrowingTaskGroup(of: Value?.self) { group in
        group.addTask { try await operation() }
        group.addTask {
            // Cancelled when the operation was faster. A hundred years at most: the system's clock traps far beyond.
            try? await clock.sleep(for: min(timeout, .seconds(100 * 365 * 86400)))
            return nil
        }
        defer { group.cancelAll() }
        if let first = try await group.next(), let value = first { return value }
        // The sleep ends early when the caller is cancelled; then the operation is, too, and has the last word.
        let isExpired = !Task.isCancelled
        group.cancelAll()
        let expired = "no result within \(timeout)"
        do {
            // The operation may still have succeeded: what it has done must not be lost.
            if let last = try await group.next(), let value = last { return value }
        } catch let error as ClientError where isExpired && error.code == .cancelled {
            throw error.changed { ($0.code, $0.message, $0.response) = (.timedOut, expired, nil) }
        } catch  where isExpired && !(error is ClientError) {
            throw ClientError(.timedOut, .unknown, expired, cause: error is CancellationError ? nil : error)
        }
        throw ClientError(.timedOut, .unknown, expired)
    }
}
