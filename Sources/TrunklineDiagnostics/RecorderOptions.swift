public import TrunklineCore

/// The options of a client's flight recorder, which keeps the latest frame headers, calls and decisions in fixed
/// memory.
///
/// ```swift
/// options.recorder = .ring(bytes: 1 << 20)
/// options.recorder?.dumpsAutomatically(on: [.halfOpen, .reset, .protocolViolation]) { recording, report in
///     save(recording.jsonLines)
/// }
/// ```
///
/// `client.diagnostics.recording` reads the recorder at any time. See <doc:FlightRecorder>.
public struct RecorderOptions: Sendable {
    /// Frames whose bodies are kept.
    public enum Bodies: Sendable, Hashable {
        /// No body is kept, only its size.
        case none
        /// The bodies of frames with these type numbers.
        case types(Set<UInt32>)
        /// The bodies of all frames.
        case all
    }

    /// The memory of the recorder in bytes. At least 65,536, at most 1 GiB; other values are clamped.
    ///
    /// It is allocated when the client is created, and never grows. A request with its response takes about 120 bytes.
    public let byteCount: Int
    /// The frames whose bodies are kept. Default: none.
    ///
    /// Bodies may contain secrets. Anyone with access to a recording can read them.
    public var bodies = Bodies.none
    /// The maximum number of bytes to keep of a body or a named field. Default 256; at least 0, at most 1/128 of
    /// ``byteCount``. The rest is cut off.
    public var maximumContentBytes = 256
    /// The names of the byte fields whose bytes are kept (``/Trunkline/Field/bytes(_:_:default:)``). Default: none. Of
    /// other byte fields only the size is kept. The values of integer fields are always kept.
    public var fields: Set<String> = []

    struct AutomaticDump: Sendable {
        let causes: Set<DisconnectCause>
        let interval: Duration
        let body: @Sendable (Recording, DisconnectReport) -> Void
    }

    private(set) var automaticDump: AutomaticDump?

    /// A recorder that overwrites its oldest content when its memory is full.
    ///
    /// - Parameter bytes: The memory of the recorder. Default 1 MiB: about 9,000 requests with their responses.
    public static func ring(bytes: Int = 1 << 20) -> RecorderOptions { RecorderOptions(byteCount: bytes) }

    private init(byteCount: Int) { self.byteCount = min(max(byteCount, 65_536), 1 << 30) }

    /// Passes the recording to `body` whenever an attempt fails or a link ends for one of `causes`.
    ///
    /// Replaces an earlier setting. `body` is called by a task, not on the event loop, and may be slow: calls do not
    /// overlap, and while one recording waits to be received, further ones are left out. ``/Trunkline/Client/close()``
    /// and ``/Trunkline/Client/closeNow()`` return when the last call has ended, but wait at most 2 s for that.
    ///
    /// - Parameters:
    ///   - causes: The causes, such as `halfOpen`.
    ///   - interval: The minimum time between two dumps. Losses in between are not dumped; they are in the next
    ///     recording. Default 60 s.
    ///   - body: Receives the recording, with the report at its end, and the report.
    public mutating func dumpsAutomatically(
        on causes: Set<DisconnectCause>,
        atMostEvery interval: Duration = .seconds(60),
        _ body: @escaping @Sendable (Recording, DisconnectReport) -> Void
    ) {
        automaticDump = AutomaticDump(causes: causes, interval: interval, body: body)
    }

    func keepsBody(of type: UInt32) -> Bool {
        switch bodies {
        case .none: false
        case .types(let types): types.contains(type)
        case .all: true
        }
    }
}
