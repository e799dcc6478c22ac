/// Reconnecting and failover, as somebody asks for them who knows better. See the methods of `Connection`.
extension Client {
    /// Connects now instead of after the rest of a wait, be it one that the server asked for, or without waiting for a route
    /// (`noNetwork`); waits to come stay as long as they would have been. A planned change that waits goes on. Nothing else
    /// happens while there is a link or an attempt, while suspended, and after the client was closed.
    public func reconnectNow() {
        command { $0.reconnectNow() }
    }

    /// Ends the link, a planned change or the attempt; there is no other until `resume()`, whoever wants one. For times in
    /// which the network is known to be away, or not to be used.
    ///
    /// Requests that had been written fail with `connectionLost`, fate `unknown`; the others, and those made meanwhile,
    /// wait for the link after `resume()`, within their own deadlines.
    public func suspend() {
        command { $0.suspend() }
    }

    /// Ends a suspension: connects at once if there was a link before it or somebody has wanted one since, to where the
    /// latest link was unless that failed.
    public func resume() {
        command { $0.resume() }
    }

    /// Goes to `endpoint`, and returns before it is there: `states` yields `ready` with `endpoint` when its link is used.
    ///
    /// With a link to another endpoint this is a planned change: the next link is made, its handshake done and its
    /// subscriptions restored, and then the present link drains. No request waits, unless `options.failover.overlap` is
    /// `.never`. If an attempt fails, the present link stays, and the next attempt goes to `endpoint` again, after the wait
    /// of `options.reconnecting.policy`. When the policy gives up, after `maximumAttempts`, or after a failure for good (such
    /// as an invalid certificate), the client stays where it is. With a link to `endpoint`, a planned change ends.
    ///
    /// During an attempt elsewhere or a wait, the next attempt goes to `endpoint` at once; if it fails, the other endpoints
    /// have their turn. While idle or suspended, the next attempt goes there, whenever that is.
    ///
    /// - Throws: `invalidArgument` when the client does not have `endpoint`: `replaceEndpoints(_:)` adds some. `closed`
    ///   when the client is closed, or closing.
    public func switchEndpoint(to endpoint: Endpoint) throws(ClientError) {
        guard lifecycle == .open else {
            throw ClientError(.closed, .notSent, "the client is closed", endpoint: endpoint)
        }
        var refusal: ClientError?
        command { connection in
            do throws(ClientError) {
                try connection.switchEndpoint(to: endpoint)
            } catch {
                refusal = error
            }
        }
        if let refusal { throw refusal }
    }

    /// Replaces the link by another to the same endpoint, and returns before that is done: `states` yields `ready` with a
    /// greater session number when the next link is used.
    ///
    /// A planned change, as `switchEndpoint(to:)` describes it: no request waits, and if it fails, the present link stays.
    /// Nothing happens without a link that is ready, and while another planned change is under way.
    ///
    /// For what only a new link sees: another certificate, other addresses of a name, another choice of a load balancer.
    /// `options.failover.maximumLinkAge` and `options.tls.rotationCheck` do the same without a call.
    public func renewLink() {
        command { $0.renewLink() }
    }

    /// Has these endpoints from now on, of equal ones the first. Those that stay keep what is remembered of them.
    ///
    /// A link to an endpoint that is not in the list is replaced by a planned change, as `switchEndpoint(to:)` describes it;
    /// the next link leads to an endpoint of the list, and each has its turn before the policy's wait. An attempt at an
    /// endpoint that is not in the list ends, and the next one begins at once. With an empty list a link stays until it is
    /// lost, and then callers are told `unavailable`. A wait goes on, because all clients of a new server may be told of it
    /// at the same time; without a route (`noNetwork`) an attempt is made at once. Endpoints that a handshake has added
    /// (`Handshaker.addEndpoints(_:)`) are replaced, too.
    public func replaceEndpoints(_ endpoints: [Endpoint]) {
        command { $0.replaceEndpoints(endpoints) }
    }

    /// The endpoints in the order of preference: those that were given, then those that a handshake has added.
    public var endpoints: [Endpoint] { connection.inCallOfOwner { $0.endpoints } }

    /// What the handshake of the latest link that was ready kept by `Handshaker.setServerInfo(_:)`; `nil` if it kept
    /// nothing, or something of another type, or no link was ready yet.
    public func serverInfo<Info: Sendable>(as type: Info.Type) -> Info? {
        connection.inCallOfOwner { $0.serverInfo(as: type) }
    }

    /// Tells the connection something, as part of a batch: it may lose its link thereby.
    private func command(_ body: (isolated Connection) -> Void) {
        connection.inCallOfOwner(body)
        finish()
    }
}
