/// Cancels `connect` when `timeout` has passed. Throws `timedOut`, fate `notSent`, if `timeout` is not positive;
/// otherwise the error of `connect`, or what `expired` makes of it once the time is over.
package func connecting(
    within timeout: Duration,
    on loop: any EventLoop,
    _ connect: @escaping @Sendable () async throws(ClientError) -> Void,
    expired: @Sendable (ClientError) async -> ClientError
) async throws(ClientError) {
    guard timeout > .zero else { throw .expiredUnsent(timeout) }
    let deadline = loop.now.advanced(by: min(timeout, .century))
    let (error, isExpired) = await withTaskGroup(of: Result<Void, ClientError>?.self) { group -> (ClientError?, Bool) in
        group.addTask {
            do throws(ClientError) { return .success(try await connect()) } catch { return .failure(error) }
        }
        group.addTask {
            // Cancelled when `connect` ends first.
            await loop.sleep(until: deadline)
            return nil
        }
        var isExpired = false
        while let next = await group.next() {
            switch next {
            case .success?:
                group.cancelAll()
                return (nil, false)
            case .failure(let error)?:
                group.cancelAll()
                return (error, isExpired && error.code == .cancelled)
            case nil:
                // The sleep also ends early if the caller is cancelled.
                isExpired = !Task.isCancelled
                group.cancelAll()
            }
        }
        return (nil, false)
    }
    guard let error else { return }
    throw isExpired ? await expired(error) : error
}
