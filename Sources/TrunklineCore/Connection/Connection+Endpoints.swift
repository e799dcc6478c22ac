/// Commands for reconnecting and failover.
extension Connection {
    /// Starts an attempt now if the connection is waiting, and connects if it is idle. See ``Client/reconnectNow()``.
    public func reconnectNow() {
        driver.entered { $0.reconnectNow() }
    }

    /// Ends the link or the attempt. The connection starts no further attempt until ``resume()``.
    ///
    /// A `write` whose first byte was written fails with `connectionLost`, fate `unknown`. All others wait for the link
    /// after `resume()`. See ``Client/suspend()``.
    public func suspend() {
        driver.entered { $0.suspend() }
    }

    /// Ends a suspension. See ``Client/resume()``.
    public func resume() {
        driver.entered { $0.resume() }
    }

    /// Starts to switch to `endpoint`, and returns before its link is ready. See ``Client/switchEndpoint(to:)``.
    ///
    /// - Throws: `invalidArgument` if `endpoint` is not in the list; add it with ``replaceEndpoints(_:)``. `closed` if
    ///   the connection is closed or closing. The fate is `notSent`.
    public func switchEndpoint(to endpoint: Endpoint) throws(ClientError) {
        if let refusal = driver.entered({ $0.switchEndpoint(to: endpoint) }) { throw refusal }
    }

    /// Replaces the link by another one to the same endpoint. Returns before the new link is ready. See
    /// ``Client/renewLink()``.
    public func renewLink() {
        driver.entered { $0.renewLink() }
    }

    /// Replaces the list of endpoints. See ``Client/replaceEndpoints(_:)``.
    public func replaceEndpoints(_ endpoints: [Endpoint]) {
        driver.entered { $0.replaceEndpoints(endpoints) }
    }

    /// The endpoints in the order of preference: the configured ones, then those that a handshake has added.
    public var endpoints: [Endpoint] { driver.machine.endpoints }
}
