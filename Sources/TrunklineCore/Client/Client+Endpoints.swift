extension Client {
    /// Connects now instead of waiting.
    ///
    /// The call has an effect in these cases:
    ///
    /// - While the client waits between attempts, the next attempt starts immediately, even if the server requested the
    ///   wait (`retryAfter`). Later waits are as long as they would have been.
    /// - While there is no route to a server (`noNetwork`), an attempt starts immediately.
    /// - While the client is idle, it connects.
    /// - While a planned change waits for its next attempt, that attempt starts immediately.
    ///
    /// Otherwise, the call has no effect: there is a link or an attempt, or the client is suspended or closed.
    public func reconnectNow() {
        command { $0.reconnectNow() }
    }

    /// Closes all links and stops connecting until ``Client/resume()``.
    ///
    /// Use it while the network is known to be unavailable or must not be used. The call also ends an attempt or a
    /// planned change in progress. Requests that were written fail with `connectionLost`, fate `unknown`. Other
    /// requests, and requests made while the client is suspended, wait for the link after `resume()` until their own
    /// deadlines.
    ///
    /// A process that `fork()` has made, without `exec`, has the descriptors of the links, too: the server sees that a
    /// link is closed only after both processes have closed it, or the other one has ended. Fork before there are
    /// links, or let the child call `exec` at once: the descriptors are closed then.
    public func suspend() {
        command { $0.suspend() }
    }

    /// Ends a suspension.
    ///
    /// The client connects at once if there was a link before the suspension, or if a link was requested since. It
    /// connects to the endpoint of its latest link, unless that endpoint has failed.
    public func resume() {
        command { $0.resume() }
    }

    /// Starts to switch to another endpoint, and returns before the switch is complete.
    ///
    /// `states` yields `ready` with `endpoint` when its link is in use.
    ///
    /// - If there is a link to another endpoint, this is a planned change (<doc:StayingConnected#Planned-changes>): no
    ///   request waits, unless `options.failover.overlap` is `.never`. If an attempt fails, the present link stays, and
    ///   the client tries `endpoint` again, unless the failure is permanent, the policy gives up, or `maximumAttempts`
    ///   attempts have failed.
    /// - If there is a link to `endpoint`, a planned change in progress ends, and the link stays.
    /// - During an attempt at another endpoint or a wait, an attempt at `endpoint` starts at once. If it fails, the
    ///   client tries the other endpoints.
    /// - While the client is idle or suspended, its next attempt goes to `endpoint`.
    ///
    /// - Parameter endpoint: One of the endpoints of this client.
    /// - Throws: `invalidArgument` if `endpoint` is not one of the endpoints of the client
    ///   (``Client/replaceEndpoints(_:)`` adds some); `closed` if the client is closed or closing. The fate is
    ///   `notSent`.
    public func switchEndpoint(to endpoint: Endpoint) throws(ClientError) {
        guard dispatcher.lifecycle == .open else {
            throw .clientIsClosed.with(endpoint)
        }
        var refusal: ClientError?
        command { refusal = $0.switchEndpoint(to: endpoint) }
        if let refusal { throw refusal }
    }

    /// Starts to replace the link by a new link to the same endpoint, and returns before that is complete.
    ///
    /// `states` yields `ready` with a greater session number when the new link is in use. This is a planned change
    /// (<doc:StayingConnected#Planned-changes>): no request waits, and if it fails, the present link stays. The call
    /// has no effect if no link is ready, or if another planned change is in progress.
    ///
    /// Use it for changes that take effect only on a new link: a new certificate, new addresses of a name, another
    /// server behind a load balancer. `options.failover.maximumLinkAge` and `options.tls.rotationCheck` do the same
    /// automatically.
    public func renewLink() {
        command { $0.renewLink() }
    }

    /// Replaces the list of endpoints.
    ///
    /// If an endpoint occurs several times, the first occurrence is kept. Endpoints that stay in the list keep their
    /// history of failures. Endpoints that a handshake added (`Handshaker.addEndpoints(_:)`) are removed too, unless
    /// they are in the new list.
    ///
    /// - A link to an endpoint that is not in the list is replaced by a planned change
    ///   (<doc:ConnectionStates#Planned-changes>). The client tries every endpoint of the list before it waits for the
    ///   first time.
    /// - An attempt at an endpoint that is not in the list ends, and the next attempt starts at once.
    /// - A wait between attempts continues. While there is no route (`noNetwork`), an attempt starts at once.
    /// - If the list is empty, the link stays until it is lost. From then on, calls that need a link fail with
    ///   `unavailable`.
    ///
    /// - Parameter endpoints: The new endpoints, in order of preference.
    public func replaceEndpoints(_ endpoints: [Endpoint]) {
        command { $0.replaceEndpoints(endpoints) }
    }

    /// The endpoints in order of preference: those of the client, then those that a handshake added.
    public var endpoints: [Endpoint] { driver.machine.endpoints }

    /// Returns the value that the handshake of the latest ready link stored with `Handshaker.setServerInfo(_:)`.
    ///
    /// - Parameter type: The type of the value.
    /// - Returns: The value, or `nil` if the handshake stored no value, if the value has another type, or if no link
    ///   has been ready yet.
    public func serverInfo<Info: Sendable>(as type: Info.Type) -> Info? {
        driver.memory.serverInfo as? Info
    }

    /// Returns the value that the handshake of the link of `session` stored with `Handshaker.setServerInfo(_:)`, for a
    /// request or a push of which that session is known (``PendingRequest/session``, ``PushMessage/session``,
    /// ``Timeline/Link/session``).
    ///
    /// - Parameters:
    ///   - type: The type of the value.
    ///   - session: The number of the link.
    /// - Returns: The value; `nil` if the handshake stored no value, if the value has another type, or if the link is
    ///   not ready yet or has ended. A link that drains has its value.
    public func serverInfo<Info: Sendable>(as type: Info.Type, of session: SessionID) -> Info? {
        driver.links[session]?.serverInfo as? Info
    }

    /// Returns the session that the links of this client share, as the latest handshake saved it
    /// (``Handshaker/saveSession(_:)``).
    ///
    /// - Parameter type: The type of the value.
    /// - Returns: The value, or `nil` if none is saved, or if the value has another type.
    public func savedSession<Session: Sendable>(as type: Session.Type) -> Session? {
        driver.memory.savedSession as? Session
    }

    /// Saves a session for the handshakes of later links: what the server has sent after the handshake, such as the
    /// number of the latest message of the session. The codec of the present link does not receive it.
    ///
    /// - Parameter session: The new value, or `nil` to forget the saved one.
    public func saveSession(_ session: (any Sendable)?) { driver.memory.savedSession = session }

    /// Performs a command as part of a batch, because it may end the link.
    private func command(_ body: (ConnectionDriver) -> Void) {
        driver.port.begin()
        body(driver)
        driver.port.end()
        batch { $0.finish(for: self) }
    }
}
