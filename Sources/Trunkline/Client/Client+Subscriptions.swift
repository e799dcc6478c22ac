public import TrunklineCore
import TrunklineIO

/// Something that the server was told and is told again on every new link, until `end()`.
public struct Subscription: Sendable {
    /// How the server answered when it was first told.
    public let response: Frame
    let id: UInt64
    let connection: Connection

    /// No new link restores it any more. What the server has to hear now is yours to send.
    public func end() async { await connection.forget(id) }
}

/// Subscriptions: what every new link is told before it is ready.
extension Client {
    /// Sends `request`, and once the server has accepted it, sends it again on every new link before that is `ready`
    /// (`options.greeting.restore`), so that pushes go on.
    ///
    /// The server may receive it twice: if a link began between the call and the registration, it may not have been told,
    /// and the request is sent on it once more. If that link is lost before it answers, the subscription is valid all the
    /// same, and the next link restores it. However often links come and go, this method sends the request at most twice.
    ///
    /// Parameters and errors are those of `send`; `timeout` covers the whole call and defaults to
    /// `options.requests.timeout`. If both are `nil`, the call waits for a link and an answer without limit. When it
    /// throws, nothing is registered.
    public nonisolated func subscribe(
        _ request: Request,
        timeout: Duration? = nil
    ) async throws(ClientError) -> Subscription {
        let first = await connection.firstLinkToBeTold
        let limit = timeout ?? options.requests.timeout
        let deadline = limit.map { loop.now.advanced(by: $0) }
        let response = try await send(request, timeout: deadline?.since(loop.now))
        let (id, untold) = await connection.remember(request, toldSince: first)
        let subscription = Subscription(response: response, id: id, connection: connection)
        guard untold else { return subscription }
        do throws(ClientError) {
            _ = try await send(request, timeout: deadline?.since(loop.now), retry: .never)
        } catch {
            // The server has accepted it, and what is registered is restored on the next link.
            if error.code == .connectionLost { return subscription }
            await subscription.end()
            throw error
        }
        return subscription
    }
}

extension Connection {
    /// The number of the earliest link, counted from 1, on which a request made now can go out.
    fileprivate var firstLinkToBeTold: Int { link == nil ? linksBegun + 1 : linksBegun }

    /// Registers `request` for every link that begins from now on. `untold` is true if the present link, ready or
    /// greeting, is not the one numbered `first`, so that the request may have gone out on an earlier one.
    fileprivate func remember(_ request: Request, toldSince first: Int) -> (id: UInt64, untold: Bool) {
        lastTicket += 1
        subscriptions[lastTicket] = request
        return (lastTicket, link != nil && linksBegun != first)
    }

    fileprivate func forget(_ id: UInt64) { subscriptions[id] = nil }
}
