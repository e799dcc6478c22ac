/// Runs `connect`, and cancels it when `timeout` has passed on the clock of `loop`.
///
/// - Parameters:
///   - timeout: Counted from the call, at most a century.
///   - connect: Ends when its task is cancelled.
///   - expired: Returns the error of a call whose time is over, from that of `connect`.
/// - Throws: `timedOut`, fate `notSent`, if `timeout` is not positive. Otherwise the error of `connect` or of `expired`.
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
            // Cancelled if there is a link before.
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
                // The sleep ends early if the caller is cancelled, and so does the call.
                isExpired = !Task.isCancelled
                group.cancelAll()
            }
        }
        return (nil, false)
    }
    guard let error else { return }
    throw isExpired ? await expired(error) : error
}
