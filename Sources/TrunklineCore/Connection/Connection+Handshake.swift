/// The values that handshakes have stored.
extension Connection {
    /// Returns the value that the handshake of the latest ready link stored with ``Handshaker/setServerInfo(_:)``, or
    /// `nil` if it stored no value, if the value has another type, or if no link has been ready yet.
    public func serverInfo<Info: Sendable>(as type: Info.Type) -> Info? { driver.memory.serverInfo as? Info }

    /// Returns the value that the handshake of the link of `session` stored with ``Handshaker/setServerInfo(_:)``, or
    /// `nil` if it stored no value, if the value has another type, or if that link is not ready yet or has ended. The
    /// link may be draining.
    public func serverInfo<Info: Sendable>(as type: Info.Type, of session: SessionID) -> Info? {
        driver.links[session]?.serverInfo as? Info
    }

    /// Returns the session that a handshake or ``saveSession(_:)`` has saved, or `nil` if there is none, or if the
    /// value has another type.
    public func savedSession<Session: Sendable>(as type: Session.Type) -> Session? {
        driver.memory.savedSession as? Session
    }

    /// Saves a session for the handshakes of later links, as ``Handshaker/saveSession(_:)`` does. The codec of the
    /// present link does not receive it.
    ///
    /// - Parameter session: The new value, or `nil` to forget the saved one.
    public func saveSession(_ session: (any Sendable)?) { driver.memory.savedSession = session }
}
