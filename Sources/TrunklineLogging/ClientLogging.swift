public import TrunklineCore

/// Where a client writes its log, and from which level on.
///
/// ```swift
/// options.logging = ClientLogging(name: "gateway") { record in print(record) }
/// ```
///
/// A healthy client writes three lines in its life: when it is created, when its first link is ready, and when it is
/// closed. Each problem is one line; repetitions are summarised. See <doc:Logging> for every line.
///
/// A record never contains bytes of a body, the value of a named field, a key or a passphrase. Of an error that your
/// own code threw, it contains only the type, except the reason of a ``HandshakeRefusal``.
public struct ClientLogging: Sendable {
    /// The minimum level of the records. Default `info`.
    ///
    /// At `debug`, every failed request and every change of a link or limit is a record of its own.
    public var level: LogRecord.Level
    /// A client of a cluster passes each delay of the event loop to the cluster, which judges it.
    package var isOfCluster = false
    /// The name of the client in its records, for programs with several. Default: none.
    public var name: String
    /// The minimum time between a line about failed requests, a limit or dropped pushes and the summary of what follows
    /// it. Default 30 s; clamped to 1 s to a hundred years. While a problem goes on, the time doubles from summary to
    /// summary, up to ten minutes.
    public var summaryInterval: Duration = .seconds(30)
    /// How long before its end a certificate of the server, or that of the client, is a warning. Default 14 days.
    ///
    /// The line is repeated once a day. The client looks at the certificates of each link that becomes ready. Whole
    /// seconds; clamped to zero to 136 years.
    public var certificateWarning: Duration {
        get { .seconds(secondsOfWarning) }
        set { secondsOfWarning = UInt32(clamping: newValue.clampedNanoseconds / 1_000_000_000) }
    }
    /// How long before its end a certificate is an error. Default 3 days. Whole seconds; clamped as
    /// ``certificateWarning``.
    public var certificateError: Duration {
        get { .seconds(secondsOfError) }
        set { secondsOfError = UInt32(clamping: newValue.clampedNanoseconds / 1_000_000_000) }
    }
    // In few bytes: every client has the options twice.
    private var (secondsOfWarning, secondsOfError): (UInt32, UInt32) = (14 * 86_400, 3 * 86_400)
    package let write: @Sendable (LogRecord) -> Void

    /// Creates the settings of a log.
    ///
    /// - Parameters:
    ///   - level: The minimum level of the records.
    ///   - name: The name of the client.
    ///   - write: Receives the records, in order and one at a time, in a task apart from the event loop. It may be
    ///     slow: at most 1,024 records wait for it, and then one record says how many are missing. When the client is
    ///     closed, the calls of ``Client/close()`` and ``Client/closeNow()`` return when it has received the last
    ///     record, but after at most 2 s.
    public init(
        level: LogRecord.Level = .info,
        name: String = "",
        _ write: @escaping @Sendable (LogRecord) -> Void
    ) {
        (self.level, self.name, self.write) = (level, name, write)
    }
}

extension ClientLogging: ObserverSettings {
    package func makeObserver(of endpoints: [Endpoint], on loop: any EventLoop) -> any AttachedObserver {
        ClientLog(self, of: endpoints, on: loop)
    }
}

extension ClientOptions {
    /// The log of the client. Default `nil`: none. Without it, logging costs nothing.
    public var logging: ClientLogging? {
        get { loggingSettings as? ClientLogging }
        set { loggingSettings = newValue }
    }
}
