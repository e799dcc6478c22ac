/// Why a server answered with an error, or ended a link, in its own words.
///
/// A codec decodes it and sets ``Frame/reason``:
///
/// ```swift
/// var frame = Frame(.response, serial: serial, isErrorResponse: true)
/// frame.reason = ServerReason("NOT_FOUND", code: 404, text: "no queue 'jobs'")
/// ```
///
/// It then appears in ``ClientError/reason``, in ``DisconnectReport/reason``, in their descriptions and in the log. The
/// metrics count it by its ``label``: ``ClientMetrics/rejections`` and
/// ``ConnectionMetrics/linkEndReasons``. Do not put secrets or data of users in it.
public struct ServerReason: Sendable, Hashable, CustomStringConvertible {
    /// The name of the reason in the protocol, such as `NOT_FOUND`; empty if it has none. At most 64 characters, with
    /// control and format characters escaped.
    public let name: String
    /// The number of the reason in the protocol; `nil` if it has none.
    public let code: Int?
    /// The explanation of the server; empty if there is none. At most 256 characters, with control and format
    /// characters escaped.
    public let text: String

    /// Creates a reason. Longer names and texts are cut.
    ///
    /// - Parameters:
    ///   - name: The name of the reason in the protocol. Metrics are counted by it, so it should be one of a few.
    ///     Default: none.
    ///   - code: The number of the reason. Default: none.
    ///   - text: The explanation of the server. Default: none.
    public init(_ name: String = "", code: Int? = nil, text: String = "") {
        self.name = name.escaped(upTo: 64)
        self.code = code
        self.text = text.escaped(upTo: 256)
    }

    /// The name or, if there is none, the number: `404`. `unnamed` if there is neither.
    public var label: String { name.isEmpty ? code.map { "\($0)" } ?? "unnamed" : name }

    /// Name, number and text: `NOT_FOUND (404): no queue 'jobs'`.
    public var description: String {
        let number = code.map { "\($0)" }
        let title = name.isEmpty ? number ?? "" : name + (number.map { " (\($0))" } ?? "")
        return [title, text].filter { !$0.isEmpty }.joined(separator: ": ")
    }
}
