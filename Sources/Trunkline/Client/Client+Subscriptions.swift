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
    /// The server may hear it twice when a link is lost in just that moment. Parameters and errors are those of `send`;
    /// when it throws, nothing is registered.
    public nonisolated func subscribe(
        _ request: Request,
        timeout: Duration? = nil
    ) async throws(ClientError) -> Subscription {
        var links = await connection.linksBegun
        let limit = timeout ?? options.requests.timeout
        let deadline = limit.map { loop.now.advanced(by: $0) }
        while true {
            let response = try await send(request, timeout: deadline?.since(loop.now))
            let (id, linksNow) = await connection.remember(request)
            // A link that began since may not have been told: the answer may be of the one before.
            if linksNow == max(1, links) {
                return Subscription(response: response, id: id, connection: connection)
            }
            await connection.forget(id)
            links = linksNow
        }
    }
}

extension Connection {
    fileprivate func remember(_ request: Request) -> (id: UInt64, links: Int) {
        lastTicket += 1
        subscriptions[lastTicket] = request
        return (lastTicket, linksBegun)
    }

    fileprivate func forget(_ id: UInt64) { subscriptions[id] = nil }
}
