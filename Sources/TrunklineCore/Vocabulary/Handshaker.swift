/// A new link during its handshake (`options.handshake`), before any other traffic.
///
/// The closures `perform` and `restore` of ``ClientOptions/Handshake-swift.struct`` receive a handshaker to log in, to
/// negotiate and to restore subscriptions:
///
/// ```swift
/// options.handshake.perform = { link in
///     let response = try await link.send(Request(type: 0x410, body: "login"))
///     await link.setServerInfo(response.body)
/// }
/// ```
///
/// A handshaker is valid while the handshake runs. After that its methods throw `closed`, fate `notSent`, or have no
/// effect. See <doc:StayingConnected#The-handshake> and <doc:DescribingYourProtocol#Frames-during-a-handshake>.
public struct Handshaker: Sendable {
    /// The server's endpoint.
    public let endpoint: Endpoint
    /// The session of the link.
    public let session: SessionID
    let link: any HandshakeLink

    /// Sends `request` and returns the server's response. It may have to wait for others: see ``send(all:)``.
    ///
    /// If the request times out, or if the task is cancelled, the attempt ends, because a late response could be
    /// matched with another request.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - timeout: The time from the call to the response. By default, and at most, the time that is left for the
    ///     handshake (`options.handshake.timeout`). If the timeout is zero or negative, nothing is sent, and the
    ///     attempt continues.
    /// - Returns: The response.
    /// - Throws:
    ///   - `rejected`, fate `answered`: the server answered with an error.
    ///   - `timedOut`, fate `unknown`, or `notSent` if no byte was written: `timeout` has passed. The attempt has
    ///     failed, except on a link of datagrams, on which the handshake may send the request again.
    ///   - `connectionLost`, fate `unknown` or `notSent`: the link or the attempt ended, for example because the
    ///     handshake took too long.
    ///   - `protocolViolation`: the response is malformed (fate `answered`), or does not belong to the request (fate
    ///     `unknown`; this ends the attempt).
    ///   - `overloaded`, fate `unknown`: a reply in several parts exceeds `options.requests.maximumReplySize` or
    ///     `maximumReassemblyBytes`. This ends the attempt.
    ///   - `invalidRequest`, fate `notSent`: the codec cannot encode the request.
    ///   - `cancelled`, fate `notSent`: the task was cancelled before the call. If the task is cancelled later, the
    ///     call throws `connectionLost`.
    ///   - `closed`, fate `notSent`: the handshake is over.
    public func send(_ request: Request, timeout: Timeout = .default) async throws(ClientError) -> Response {
        let outcome = await link.send(
            request.frame,
            session,
            timeout: timeout.duration(orByDefault: nil),
            expectsResponse: true
        )
        return try outcome.mapError { $0.with(request, number: 1, of: 1) }.get()
    }

    /// Sends `requests` in order and returns their results, in the same order, when the last one has ended.
    ///
    /// As everywhere in a handshake, the number of requests without a response at any time is limited:
    ///
    /// - at most `options.handshake.maximumInFlight`;
    /// - at most `options.requests.maximumInFlight`, if that is below 1,024;
    /// - at most the number of free serial numbers;
    /// - one, if responses are matched in order and the codec does not allow another request to follow before that
    ///   response (``PipeliningCodec/mayPipeline(behind:)``).
    ///
    /// Each request succeeds or fails separately, with the errors and fates of ``send(_:timeout:)->Response``.
    /// Cancelling the task ends the attempt.
    public func send(all requests: [Request]) async -> [Result<Response, ClientError>] {
        await link.send(requests, session, expectsResponse: true, stopsAtFailure: false)
    }

    func restore(_ subscriptions: [Request]) async throws(ClientError) {
        for outcome in await link.send(subscriptions, session, expectsResponse: true, stopsAtFailure: true) {
            _ = try outcome.get()
        }
    }

    func post(all subscriptions: [Request]) async throws(ClientError) {
        let outcomes = await link.send(
            subscriptions,
            session,
            expectsResponse: false,
            stopsAtFailure: true
        )
        for outcome in outcomes { _ = try outcome.get() }
    }

    /// Sends `request` as a one-way message and returns when the kernel has accepted its last byte. It may have to wait
    /// for others: see ``send(all:)``. If the task is cancelled before that, the attempt ends.
    ///
    /// - Throws: `connectionLost` if the link or the attempt ended; the fate is `unknown` if a byte was written,
    ///   otherwise `notSent`. `invalidRequest` if the codec cannot encode the message, or if the server answers
    ///   messages of this kind. `cancelled` if the task was cancelled before the call. `closed` if the handshake is
    ///   over. The fate of the other errors is `notSent`.
    public func post(_ request: Request) async throws(ClientError) {
        guard link.codec.mayPost(request.frame) else { throw .answeredWhenPosted }
        let outcome = await link.send(request.frame, session, timeout: nil, expectsResponse: false)
        _ = try outcome.mapError { $0.with(request, number: 1, of: 1) }.get()
    }

    /// Sets the default value of a named field of the layout to `number`, for all later frames of this link. A frame
    /// that sets the field itself keeps its own value.
    ///
    /// Use this method for a session number that the server's response contains, for example. The default also applies
    /// to heartbeats, cancellations and the closing frame, which the client creates itself. The next link starts
    /// without this default.
    ///
    /// - Throws: `invalidArgument` if the layout does not declare the field, the number does not fit into it, or the
    ///   codec has no default values; `connectionLost`; `closed` if the handshake is over. The fate is `notSent`.
    public func setDefault(_ field: String, to number: UInt64) async throws(ClientError) {
        var frame = Frame(.request)
        frame[field] = number
        try await link.change(.defaults(frame), session).get()
    }

    /// Sets the default value of a named field of the layout to `bytes`, for all later frames of this link: a session
    /// token, for example. See ``setDefault(_:to:)-(_,UInt64)``.
    public func setDefault(_ field: String, to bytes: Bytes) async throws(ClientError) {
        var frame = Frame(.request)
        frame[bytes: field] = bytes
        try await link.change(.defaults(frame), session).get()
    }

    /// Begins TLS on this link with `options.tls` (STARTTLS), and returns when the TLS handshake is complete. See
    /// <doc:TLS#STARTTLS>.
    ///
    /// Call this method after the server has agreed, in plaintext, to begin TLS. If the server does not agree, throw a
    /// ``HandshakeRefusal``: a handshake that returns without calling this method continues in plaintext.
    ///
    /// Plaintext that follows the server's agreement ends the attempt as a protocol violation, and so does an earlier
    /// frame that the handshake did not request. The link continues with a new copy of the codec, in which only the
    /// values of `setDefault` are set again.
    ///
    /// - Throws:
    ///   - `connectionLost`, with the cause: the TLS handshake failed. This ends the attempt.
    ///   - `tlsFailed`: `options.tls` cannot be used, for example because a file cannot be read. This ends the attempt.
    ///   - `protocolViolation`: plaintext was received where TLS should begin. This ends the attempt.
    ///   - `invalidRequest`: a request of the handshake is in flight, or the link already uses TLS.
    ///   - `cancelled` if the task was cancelled before the call, and `closed` if the handshake is over.
    ///
    ///   The fate is `notSent`.
    public func startTLS() async throws(ClientError) {
        // Not on the loop of the link: reading files and asking for a passphrase would block it.
        let tls = await link.options.tls.load(unlessChangedSince: link.loadedTLS())
        _ = try await link.startTLS(session, tls).get()
    }

    /// Keeps the subscriptions of an earlier link: `options.handshake.restore` is not called for this link, and posted
    /// subscriptions are not sent again. Call this method in `perform` if the server still knows the session, for
    /// example a persistent session of MQTT.
    public func keepSubscriptions() async {
        _ = await link.change(.keepsSubscriptions, session)
    }

    /// Adds `endpoints` to the client's list, after the configured ones: other servers of the same service, as
    /// announced by this server (`connect_urls` of NATS).
    ///
    /// - The change takes effect when the link is ready. A failed attempt changes nothing.
    /// - The endpoints replace those that an earlier handshake added. A handshake that does not call this method keeps
    ///   them; an empty list removes them. ``Client/replaceEndpoints(_:)`` removes them, too.
    /// - The client never replaces its link because of this method, even if the link's endpoint is no longer in the
    ///   list.
    /// - No effect after the end of the handshake, and in a ``Cluster``, whose servers come from its ``Discovery``.
    /// - After a link is lost, each of them has its turn. One that does not answer takes
    ///   ``ClientOptions/Connecting-swift.struct/timeout`` (3 s) before the next one is tried, and comes last for some
    ///   minutes then. So add only endpoints that the client can reach, or set a shorter timeout.
    ///
    /// With this method the server decides where the client connects. Add `tls://` endpoints if the configured
    /// endpoints use TLS, and limit the number of endpoints if the server is not trusted. Only the first 1,024 are
    /// added.
    public func addEndpoints(_ endpoints: [Endpoint]) async {
        _ = await link.change(.endpoints(Array(endpoints.prefix(Self.maximumEndpoints))), session)
    }

    /// Changes the options of liveness for this link, to what the peers have negotiated:
    ///
    /// ```swift
    /// await link.setLiveness { $0.interval = .seconds(seconds / 2) }
    /// ```
    ///
    /// The change takes effect when the link is ready, and ends with the link. No effect after the end of the
    /// handshake. An interval that differs from `options.liveness.interval` takes the place of one that the client has
    /// learned (``ClientOptions/Liveness-swift.struct/adaptiveInterval``).
    ///
    /// - Parameter change: Receives `options.liveness`, or what an earlier call in this handshake has set.
    public func setLiveness(_ change: @Sendable (inout ClientOptions.Liveness) -> Void) async {
        await link.changeLiveness(session, change)
    }

    /// Limits the requests in flight on this link to `count`, at least 1, if `options.requests.maximumInFlight` is not
    /// lower: the window that the server allows. Takes effect when the link is ready, and ends with the link. No effect
    /// after the end of the handshake.
    public func setMaximumInFlight(_ count: Int) async {
        _ = await link.change(.maximumInFlight(max(1, count)), session)
    }

    /// Sets the size of the largest whole frame in bytes on this link, in both directions, from the next frame on.
    ///
    /// - Throws: `invalidArgument` if the codec is no ``FrameLimitCodec``; `connectionLost`; `closed` if the handshake
    ///   is over. The fate is `notSent`.
    public func setMaximumFrameSize(_ size: Int) async throws(ClientError) {
        try await link.change(.maximumFrameSize(size), session).get()
    }

    /// Stores information that the server sent about itself (limits, a version, a session number), for
    /// ``Client/serverInfo(as:)``.
    ///
    /// The value takes effect when this link is ready, and replaces that of an earlier link. If the handshake of a
    /// later link stores no value, the client has none. The link itself keeps its value to its end
    /// (``Client/serverInfo(as:of:)``, ``AbandonedRequest/serverInfo(as:)``). No effect after the end of the handshake.
    public func setServerInfo(_ info: some Sendable) async {
        _ = await link.change(.serverInfo(info), session)
    }

    /// Returns the session that an earlier link of the same client has saved, to resume it.
    ///
    /// - Parameter type: The type of the value.
    /// - Returns: The value; `nil` if none is saved, for example on the first link, if the value has another type, or
    ///   after the end of the handshake.
    public func savedSession<Session: Sendable>(as type: Session.Type) async -> Session? {
        await link.savedSession(in: session) as? Session
    }

    /// Saves the session that the server has begun or continued, such as a token, for the handshakes of later links.
    ///
    /// The value takes effect at once, also if the attempt fails later, because the server has already changed the
    /// session. It is kept from link to link, whatever their endpoints, until it is replaced. A codec that needs it
    /// receives it (``SessionCodec``). No effect after the end of the handshake. See
    /// <doc:StayingConnected#Resuming-a-session>.
    ///
    /// - Parameter session: The new value, or `nil` to forget the saved one.
    public func saveSession(_ session: (any Sendable)?) async {
        _ = await link.change(.savedSession(session), self.session)
    }

    /// Declares that the server does not know the saved session any more, and forgets it. Call this method before
    /// ``saveSession(_:)`` saves the new session, and before the closure throws a ``HandshakeRefusal`` because of the
    /// session: a refusal alone keeps it.
    ///
    /// When the next link is ready, requests that have waited fail with `sessionLost`, fate `notSent`, if their options
    /// do not let them go to the new session (``ClientOptions/Requests/outlivesSession``). By default they go to it. No
    /// effect after the end of the handshake.
    public func sessionWasLost() async {
        _ = await link.change(.sessionLost, session)
    }

    /// Returns the next message from the server that is not a response: its greeting or a challenge, for example. Waits
    /// until one is received, or until the handshake times out.
    ///
    /// A `goAway` is such a message, too; recognize it by its type. Cancelling the task ends the attempt.
    ///
    /// Messages that the handshake does not read are delivered as pushes when the link is ready. While subscriptions
    /// are being restored, the pushes are delivered earlier if the unread messages reach 65,536 or 8 MiB, because
    /// otherwise no response could be read.
    ///
    /// - Throws: `protocolViolation`, fate `unknown`, if the message is malformed; `overloaded`, fate `unknown`, if it
    ///   is longer than the codec allows. `connectionLost` if the link or the attempt ended, `cancelled` if the task
    ///   was cancelled before the call, or `closed` if the handshake is over; fate `notSent`.
    public func nextMessage() async throws(ClientError) -> PushMessage {
        var frame = try await link.next(session).get().frame
        if let reason = frame.malformedReason {
            let cause =
                reason == .illegalLength
                ? FrameError(
                    exceedingLimit:
                        "it is longer than the codec's maximumFrameSize\(frame.malformedFinding); its body has"
                        + " \(frame.body)"
                )
                : FrameError(reason, "it is invalid\(frame.malformedFinding); its body has \(frame.body)")
            throw ClientError(
                cause.exceedsLimit ? .overloaded : .protocolViolation,
                .unknown,
                "the message is malformed",
                endpoint: endpoint,
                cause: cause
            )
        }
        frame.session = session
        return PushMessage(frame)
    }
}

extension Handshaker {
    /// Limited, because every attempt looks at the whole list.
    private static let maximumEndpoints = 1024
}

/// What a handshaker needs of its connection. Nothing has an effect after the end of the handshake of `session`.
protocol HandshakeLink: AnyObject, Sendable {
    var codec: ProtocolCodec { get }
    var options: ClientOptions { get }

    func send(_ frame: Frame, _ session: SessionID, timeout: Duration?, expectsResponse: Bool) async -> Outcome

    /// With `stopsAtFailure`, returns the first failure alone.
    func send(_ requests: [Request], _ session: SessionID, expectsResponse: Bool, stopsAtFailure: Bool) async
        -> [Outcome]

    /// The next message that is no response.
    func next(_ session: SessionID) async -> Outcome

    func loadedTLS() async -> LoadedTLS?

    func startTLS(_ session: SessionID, _ prepared: Result<LoadedTLS, TransportError>) async -> Outcome

    func change(_ change: HandshakeChange, _ session: SessionID) async -> Result<Void, ClientError>

    /// Passes the options, or what an earlier call has set.
    func changeLiveness(_ session: SessionID, _ change: @Sendable (inout ClientOptions.Liveness) -> Void) async

    func savedSession(in session: SessionID) async -> (any Sendable)?

    func closureReturned(_ session: SessionID, _ failure: (any Error)?) async
}

/// What a handshake sets, for its link or for later ones.
enum HandshakeChange: Sendable {
    /// The fields of the frame become default values of the codec.
    case defaults(Frame)
    case maximumFrameSize(Int)
    case maximumInFlight(Int)
    case keepsSubscriptions
    case endpoints([Endpoint])
    case serverInfo(any Sendable)
    case savedSession((any Sendable)?)
    case sessionLost
}
