/// What a push is about, as its codec reads it: a topic, a channel, the number of a subscription. See
/// `Client.pushes(forKey:buffering:)`.
///
/// ```swift
/// let news = client.pushes(forKey: "news")
/// let seventh = client.pushes(forKey: 7)
/// ```
public enum PushKey: Sendable, Hashable {
    /// A number, as of a header field.
    case number(UInt64)
    /// A name. Names are equal when their bytes are.
    case name(Bytes)

    /// The name whose UTF-8 bytes are those of `text`.
    package init(_ text: String) { self = .name(Bytes(text)) }
}

extension PushKey: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral {
    /// The name whose UTF-8 bytes are those of a literal.
    public init(stringLiteral text: String) { self.init(text) }

    /// The number of a literal.
    public init(integerLiteral number: UInt64) { self = .number(number) }
}
