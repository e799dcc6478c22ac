/// Closing a connection that is used alone.
extension Connection {
    /// Writes the queued frames and the codec's `closingFrame`, and closes. Returns when the link has ended.
    ///
    /// If no link is ready, the connection closes at once. Otherwise it waits until a peer that reads slowly has taken
    /// everything, but no longer than:
    ///
    /// - ``ConnectionOptions/drainTimeout``;
    /// - 2 s in which the peer takes no byte, if no `write` waits. In this case the only unwritten bytes are the
    ///   closing frame, or the rest of a frame whose `write` was cancelled.
    ///
    /// A frame that cannot be written fails with `closed`: fate `notSent`, or `unknown` if a byte of it was written.
    ///
    /// If the link has a child process (``Endpoint/command(_:_:environment:inheritsEnvironment:workingDirectory:)``),
    /// the call returns when that has ended. This takes up to 4 s if the process ignores the end of its input and
    /// `SIGTERM`.
    ///
    /// A second call returns when the link has ended, too. If the calling task is cancelled, the connection closes at
    /// once. After the call, the socket may stay open for up to 1 s, over TLS up to 30 s
    /// (<doc:ConnectionStates#Calls>).
    public func close() async {
        driver.entered { $0.beginClosing() }
        await withTaskCancellationHandler {
            await withContinuation { driver.whenClosed($0) }
        } onCancel: {
            driver.schedule { $0.finishClosing() }
        }
    }

    /// Closes at once. A frame that waits to be written fails with `closed`: fate `notSent`, or `unknown` if a byte of
    /// it was written.
    public func closeNow() {
        driver.entered { $0.finishClosing() }
    }
}
