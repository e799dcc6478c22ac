/// One new link in the hands of the user's handshake (`options.handshake`), before it is ready.
///
/// Its requests have serial numbers from the last quarter of those that there are, far from the first ones of a client: an
/// answer that comes twice must not meet a later request. It is good for as long as the handshake runs; afterwards its
/// methods throw `closed`, fate `notSent`.
public struct Handshaker: Sendable {
    /// The server at the other end.
    public let endpoint: Endpoint
    /// The session number that the link will have.
    public let session: UInt64
    let connection: Connection

    /// Sends `request` and returns the server's response.
    ///
    /// A request that is given up here, by cancellation or for want of time, ends the attempt: a late answer could else
    /// be taken for that of another request. `timeout` defaults to what is left for the handshake, and none exceeds that.
    ///
    /// - Throws: `rejected`, `timedOut`, `cancelled`, `connectionLost`, `invalidRequest` or `closed`, as `Client.send`.
    public func send(_ request: Request, timeout: Timeout = .default) async throws(ClientError) -> Response {
        try await connection.sendInHandshake(
            request.frame,
            session,
            timeout: timeout.duration(orByDefault: nil),
            expectsResponse: true
        ).get()
    }

    /// Sends `requests` in order and returns their results, in the same order, when the last one has ended.
    ///
    /// At most `options.handshake.maximumInFlight` of them are unanswered at a time, and no more than
    /// `options.requests.maximumInFlight` where that is below 1,024; fewer if the protocol has fewer serial
    /// numbers, or is matched in order and its codec lets nothing follow a request before it is answered
    /// (`PipeliningCodec.mayPipeline(behind:)`). Every request succeeds or fails on its own: `rejected`, `connectionLost`,
    /// `invalidRequest`, `overloaded` or `closed`, with the fates of `send(_:timeout:)`. Cancelling the task ends the
    /// attempt.
    public func send(all requests: [Request]) async -> [Result<Response, ClientError>] {
        await connection.sendInHandshake(requests, session, stopsAtFailure: false)
    }

    /// What `options.handshake.restore` does by default.
    func restore(_ subscriptions: [Request]) async throws(ClientError) {
        for outcome in await connection.sendInHandshake(subscriptions, session, stopsAtFailure: true) {
            _ = try outcome.get()
        }
    }

    /// Sends `request` as a one-way message and returns when the kernel has it. Cancelled before that, it ends the attempt.
    ///
    /// - Throws: `cancelled`, `connectionLost`, `invalidRequest` or `closed`; `unknown` is the fate of what was begun.
    public func post(_ request: Request) async throws(ClientError) {
        guard connection.codec._mayPost(request.frame) else { throw .answeredWhenPosted }
        _ = try await connection.sendInHandshake(request.frame, session, timeout: nil, expectsResponse: false).get()
    }

    /// Has every later frame of this link hold `number` in the named field of the layout, unless it sets the field itself: a
    /// session's number that the server's answer has. Heartbeats, cancellations and the closing frame included, which
    /// nobody else could give it to. The next link begins without it.
    ///
    /// - Throws: `invalidArgument` for a field that the layout does not declare, or a number that does not fit it;
    ///   `connectionLost` or `closed`. The fate is `notSent`.
    public func setDefault(_ field: String, to number: UInt64) async throws(ClientError) {
        var frame = Frame(.request)
        frame[field] = number
        try await connection.setDefaults(from: frame, session).get()
    }

    /// Has every later frame of this link hold `bytes` in the named field of the layout, unless it sets the field itself: a
    /// session's token, for example. See the same for a number.
    public func setDefault(_ field: String, to bytes: Bytes) async throws(ClientError) {
        var frame = Frame(.request)
        frame[bytes: field] = bytes
        try await connection.setDefaults(from: frame, session).get()
    }

    /// Goes on with TLS on this link, as `options.tls` says (STARTTLS): to be called when the server has agreed, in
    /// plaintext, to begin with it. Returns when the TLS handshake is over. A handshake that goes on without it,
    /// because the server did not agree, goes on in plaintext: throw a `HandshakeRefusal` instead.
    ///
    /// What the server has sent in plaintext behind its agreement was perhaps not sent by the server: it ends the attempt
    /// as a protocol violation. So does a frame that came before and that nobody has asked for.
    ///
    /// - Throws: `connectionLost` with the cause when there is no TLS, which ends the attempt; `tlsFailed` when
    ///   `options.tls` cannot be used, which ends it too; `protocolViolation` as said;
    ///   `invalidRequest` while a request of the handshake is under way, or when the link has TLS; `cancelled`;
    ///   `closed`.
    public func startTLS() async throws(ClientError) {
        // Here and not on the connection's loop, which has no time for files and passphrases.
        let security = await connection.options.tls.security(unlessChangedSince: connection.security)
        _ = try await connection.startTLS(session, security).get()
    }

    /// The server still knows what we subscribed to on an earlier link (a session that outlives links, as MQTT's):
    /// `options.handshake.restore` is not called for this one. To be called by `perform`.
    public func keepSubscriptions() async { await connection.keepSubscriptions(session) }

    /// Adds `endpoints` to those of the client, behind those that it was given: other servers of the same service, as
    /// this one names them (`connect_urls` of NATS).
    ///
    /// Takes effect when the link is ready; an attempt that fails changes nothing. They replace what an earlier
    /// handshake has added; a handshake that does not call this keeps it, and an empty list removes it. The link stays
    /// where it is, even if its own endpoint is no longer among them. `replaceEndpoints(_:)` of the client removes what
    /// was added.
    ///
    /// The server decides where the client goes next: make the endpoints `tls://` if the client's are, and limit their
    /// number if the server is not trusted. No effect once the handshake is over.
    public func addEndpoints(_ endpoints: [Endpoint]) async {
        await connection.learn(in: session) { $0.endpoints = endpoints }
    }

    /// Keeps what the server said of itself (limits, a version, a session's number) for `Client.serverInfo(as:)`.
    ///
    /// Takes effect when the link is ready, in place of what an earlier link had. No effect once the handshake is over.
    public func setServerInfo(_ info: some Sendable) async {
        await connection.learn(in: session) { $0.serverInfo = info }
    }

    /// The next message that is no response, of a server that speaks first: its greeting, a challenge. A `goAway` is one
    /// too, told by its type.
    ///
    /// Messages that nobody asks for here are delivered as pushes once the link is ready, or in `restore` as soon as there are
    /// 65,536 of them, or 8 MiB. Cancelling the wait ends the attempt.
    ///
    /// - Throws: `protocolViolation`, fate `unknown`, for a malformed message; `cancelled`, `connectionLost` or `closed`, fate
    ///   `notSent`.
    public func nextMessage() async throws(ClientError) -> PushMessage {
        var frame = try await connection.nextInHandshake(session).get().frame
        if let reason = frame.malformedReason {
            let cause = FrameError(reason, "its body has \(frame.body)")
            throw ClientError(
                .protocolViolation,
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

extension Connection {
    fileprivate func learn(in session: UInt64, _ change: @Sendable (inout HandshakeState.Learned) -> Void) {
        guard let index = handshaking(session), var learned = links[index].handshake?.learned else { return }
        change(&learned)
        links[index].handshake?.learned = learned
    }

    /// The handshake is over, and its link is about to be ready.
    func adopt(_ learned: HandshakeState.Learned) {
        serverInfo = learned.serverInfo
        guard let added = learned.endpoints else { return }
        machine.extendEndpoints(givenEndpoints + added)
    }

    /// What the handshake of the latest link that was ready kept by `Handshaker.setServerInfo(_:)`; `nil` if it kept
    /// nothing, or something of another type, or no link was ready yet.
    public func serverInfo<Info: Sendable>(as type: Info.Type) -> Info? { serverInfo as? Info }

    /// Has the link's codec fill in the named fields that `frame` has.
    func setDefaults(from frame: Frame, _ session: UInt64) -> Result<Void, ClientError> {
        guard let index = handshaking(session) else { return Outcome.handshakeIsOver.map { _ in } }
        if let loss = links[index].handshake?.loss { return .failure(.lostDuringHandshake(loss, .notSent)) }
        do throws(FrameError) {
            return .success(try links[index].codec._setDefaults(from: frame))
        } catch {
            return .failure(ClientError(.invalidArgument, .notSent, "the field cannot be set", cause: error))
        }
    }
}
