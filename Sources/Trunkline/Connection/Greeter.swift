public import TrunklineCore

/// One new link in the hands of the user's greeting (`options.greeting`), before it is ready.
///
/// It is good for as long as the greeting runs; afterwards its methods throw `closed`, fate `notSent`.
public struct Greeter: Sendable {
    /// The server at the other end.
    public let endpoint: Endpoint
    /// The session number that the link will have.
    public let session: UInt64
    let connection: Connection

    /// Sends `request` and returns the server's response.
    ///
    /// A request that is given up here, by cancellation or for want of time, ends the attempt: a late answer could else
    /// be taken for that of another request. `timeout` defaults to what is left for the greeting.
    ///
    /// - Throws: `rejected`, `timedOut`, `cancelled`, `connectionLost`, `invalidRequest` or `closed`, as `Client.send`.
    public func send(_ request: Request, timeout: Duration? = nil) async throws(ClientError) -> Frame {
        try await connection.greet(request.frame, session, timeout: timeout, expectsResponse: true).get()
    }

    /// Sends `request` as a one-way message and returns when the kernel has it. Cancelled before that, it ends the attempt.
    ///
    /// - Throws: `cancelled`, `connectionLost`, `invalidRequest` or `closed`; `unknown` is the fate of what was begun.
    public func post(_ request: Request) async throws(ClientError) {
        guard connection.codec.mayPost(request.frame) else { throw .answeredWhenPosted }
        _ = try await connection.greet(request.frame, session, timeout: nil, expectsResponse: false).get()
    }

    /// The server still knows what we subscribed to on an earlier link (a session that outlives links, as MQTT's):
    /// `options.greeting.restore` is not called for this one. To be called by `perform`.
    public func keepSubscriptions() async { await connection.keepSubscriptions(session) }

    /// The next frame that is no response: a server that speaks first. Frames that nobody asks for here are delivered
    /// as pushes once the link is ready. Cancelling the wait ends the attempt.
    ///
    /// - Throws: `cancelled`, `connectionLost` or `closed`, fate `notSent`.
    public func nextFrame() async throws(ClientError) -> Frame {
        try await connection.nextInGreeting(session).get()
    }
}
