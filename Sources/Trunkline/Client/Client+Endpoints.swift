/// Reconnecting and failover, as somebody asks for them who knows better. See the methods of `Connection`.
extension Client {
    /// Connects now instead of after the rest of a wait, be it one that the server asked for; waits to come stay as
    /// long as they would have been. Nothing happens while there is a link or an attempt, while suspended, and after
    /// the client was closed.
    public func reconnectNow() {
        command { $0.reconnectNow() }
    }

    /// Ends the link or the attempt; there is no other until `resume()`, whoever wants one. For times in which the
    /// network is known to be away, or not to be used.
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

    /// Goes to `endpoint`: now, if there is a link to another, an attempt or a wait; else it is where the next attempt
    /// goes. If it cannot be reached, the others have their turn.
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

    /// Has these endpoints from now on, of equal ones the first. Those that stay keep what is remembered of them.
    ///
    /// A link or an attempt to an endpoint that is gone is given up for another. With an empty list a link stays until
    /// it is lost, and then callers are told `unavailable`. A wait goes on: clients that are told of a new server are
    /// told at the same time. Those that a handshake has added (`Handshaker.addEndpoints(_:)`) are replaced, too.
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
