/// The subject of a push, as its codec reads it: a topic, a channel, or the number of a subscription, for example. See
/// ``RequestSender/pushes(forKey:buffering:)``.
///
/// ```swift
/// let news = client.pushes(forKey: "news")
/// let seventh = client.pushes(forKey: 7)
/// ```
public enum PushKey: Sendable, Hashable {
    /// A number, for example the value of a header field.
    case number(UInt64)
    /// A name. Two names are equal if their bytes are equal.
    case name(Bytes)

    init(_ text: String) { self = .name(Bytes(text)) }
}

extension PushKey: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral {
    /// Creates a `name` key from the UTF-8 bytes of a string literal.
    public init(stringLiteral text: String) { self.init(text) }

    /// Creates a `number` key from an integer literal.
    public init(integerLiteral number: UInt64) { self = .number(number) }
}
