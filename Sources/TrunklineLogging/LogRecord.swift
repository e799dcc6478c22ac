public import TrunklineCore

/// One line of the log of a client. See ``ClientLogging``.
public struct LogRecord: Sendable {
    /// The importance of a record. The raw values are names that other logging libraries use too.
    public enum Level: String, Sendable, Hashable, Comparable, CaseIterable {
        /// A single event, for the search for a fault.
        case debug
        /// What an operator wants to read in the log of a healthy client: its beginning, its end, and links that ended
        /// in an orderly way.
        case info
        /// A problem that the client handles itself, such as a lost link, or that ends by itself.
        case warning
        /// A problem that remains until someone acts. The message says what to do.
        case error

        private var rank: Int {
            switch self {
            case .debug: 0
            case .info: 1
            case .warning: 2
            case .error: 3
            }
        }

        /// Whether `a` is less important than `b`.
        public static func < (a: Level, b: Level) -> Bool { a.rank < b.rank }
    }

    /// The importance of the record.
    public let level: Level
    /// The name of the client (``ClientLogging/name``); empty if it has none.
    public let client: String
    /// The name of the event, which does not change between versions, such as `link.lost`. See <doc:Logging>.
    public let event: String
    /// What happened, in one line of plain English. Later versions may change it.
    public let message: String
    /// The facts of the message as names and values, in a fixed order. Durations are in seconds.
    public let fields: [(name: String, value: ClientEvent.Value)]
    /// When it happened, on the clock of the client's event loop (``ClientEvent/time``); of a summary, when it was
    /// written.
    ///
    /// A record that was held back for a summary may be earlier than the records before it.
    public let time: Duration
    /// ``time`` on the calendar: the time since 1970-01-01 00:00 UTC. `nil` in a simulation, which has no calendar.
    ///
    /// With Foundation, `Date(timeIntervalSince1970: record.timeSince1970 / .seconds(1))`.
    public internal(set) var timeSince1970: Duration?
    package var loopDelay: LoopDelay?
}

extension LogRecord {
    package func naming(_ endpoint: Endpoint) -> LogRecord {
        let server = "\(endpoint)"
        return LogRecord(
            level: level,
            client: client,
            event: event,
            message: message.contains(server) ? message : "\(message) [server \(server)]",
            fields: fields + [("server", .text(server))],
            time: time,
            timeSince1970: timeSince1970
        )
    }
}

extension LogRecord: CustomStringConvertible {
    /// The time (RFC 3339), the level, the name of the client, the event and the message:
    /// `2026-11-27T05:31:07.402Z warning gateway link.lost: lost the link to …`. Without the time in a simulation.
    public var description: String {
        let time = timeSince1970.map { [CalendarTime($0).text()] } ?? []
        return (time + [level.rawValue] + (client.isEmpty ? [] : [client.escaped()]) + [event]).joined(separator: " ")
            + ": " + message
    }
}

extension LogRecord: Sizable {
    package var size: Int { 1 }

    package static func missing(_ count: Int, client: String, after latest: LogRecord?) -> LogRecord {
        LogRecord(
            level: .warning,
            client: client,
            event: "log.missing",
            message:
                "\(Quantity.count(count, "record is", "records are")) missing here: the log could not take them in time",
            fields: [("count", .integer(Int64(count)))],
            time: latest?.time ?? .zero,
            timeSince1970: latest?.timeSince1970
        )
    }
}

extension [LogRecord] {
    package func dated(by loop: any EventLoop) -> [LogRecord] {
        guard let unixTime = loop.unixTime else { return self }
        let begin = unixTime - .nanoseconds(loop.now.nanoseconds)
        return map { record in
            var record = record
            record.timeSince1970 = record.timeSince1970 ?? begin + record.time
            return record
        }
    }
}

/// Collects the records of one client that reach its level.
package struct LogSheet: Sendable {
    package typealias Fields = [(name: String, value: ClientEvent.Value)]

    let level: LogRecord.Level
    let client: String
    private(set) var records: [LogRecord] = []

    package init(_ level: LogRecord.Level, client: String) { (self.level, self.client) = (level, client) }

    /// The message and fields are made only if the level is wanted.
    package mutating func add(
        _ level: LogRecord.Level,
        _ event: String,
        at now: Instant,
        _ message: @autoclosure () -> String,
        _ fields: @autoclosure () -> Fields = []
    ) {
        guard level >= self.level else { return }
        let time = Duration.nanoseconds(now.nanoseconds)
        let line = message().asMessage
        records.append(
            LogRecord(level: level, client: client, event: event, message: line, fields: fields(), time: time)
        )
    }

    package func record(
        _ level: LogRecord.Level,
        _ event: String,
        at now: Instant,
        _ message: String,
        _ fields: Fields
    ) -> LogRecord {
        let time = Duration.nanoseconds(now.nanoseconds)
        return LogRecord(
            level: level,
            client: client,
            event: event,
            message: message.asMessage,
            fields: fields,
            time: time
        )
    }

    package mutating func add(_ record: LogRecord) { if record.level >= level { records.append(record) } }

    /// The message ends with the endpoints, as those of errors do.
    mutating func add(
        _ level: LogRecord.Level,
        _ event: String,
        at now: Instant,
        _ places: LogPlaces,
        _ message: @autoclosure () -> String,
        _ fields: @autoclosure () -> Fields = []
    ) {
        guard let text = places.text else { return add(level, event, at: now, message(), fields()) }
        add(level, event, at: now, "\(message()) [\(text)]", fields() + [("endpoint", .text(text))])
    }

    package mutating func takeAll() -> [LogRecord] { exchange(&records, with: []) }
}
