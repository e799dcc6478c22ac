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
    public init(_ text: String) { self = .name(Bytes(text)) }
}

extension PushKey: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral {
    /// The name whose UTF-8 bytes are those of a literal.
    public init(stringLiteral text: String) { self.init(text) }

    /// The number of a literal.
    public init(integerLiteral number: UInt64) { self = .number(number) }
}

// MARK: - Codecs without code

extension FrameLayout {
    /// The same layout, in which the named header field of a push is its key (`FrameCodec.pushKey(of:)`): a number for
    /// `Field.integer`, a name for `Field.bytes`. Replaces any other key. A field that responses do not have stops the
    /// program.
    public func keyingPushes(
        by field: String,
        file: StaticString = #fileID,
        line: UInt = #line
    ) -> FrameLayout {
        LayoutError.stopping(file, line) { () throws(LayoutError) in
            guard responsePlan.named.contains(where: { $0.name == field }) else {
                throw LayoutError("push key", "the \(responsePlan.direction) layout has no field \"\(field)\"")
            }
        }
        return keyingPushes { push in
            if let number = push[field] { .number(number) } else { push[bytes: field].map { .name($0) } }
        }
    }

    /// The same layout, in which `key` says what a push is about (`FrameCodec.pushKey(of:)`): for keys in the body, or
    /// in several fields. Replaces any other key.
    public func keyingPushes(by key: @escaping @Sendable (Frame) -> PushKey?) -> FrameLayout {
        var layout = self
        layout.pushKey = key
        return layout
    }

    /// What `keyingPushes(by:)` says; `nil` without it.
    public func pushKey(of push: Frame) -> PushKey? { pushKey?(push) }
}

extension DelimitedCodec {
    /// The same codec, for which `key` says what a push is about (`FrameCodec.pushKey(of:)`).
    public func keyingPushes(by key: @escaping @Sendable (Frame) -> PushKey?) -> DelimitedCodec {
        var codec = self
        codec.reading.pushKey = key
        return codec
    }

    /// What `keyingPushes(by:)` says; `nil` without it.
    public func pushKey(of push: Frame) -> PushKey? { reading.pushKey?(push) }
}

extension CountedPayloadCodec {
    /// Returns a codec in which `key` says what a push is about (`FrameCodec.pushKey(of:)`), in place of an earlier one: for
    /// NATS a word of `push.head`.
    public func keyingPushes(by key: @escaping @Sendable (Frame) -> PushKey?) -> CountedPayloadCodec {
        var codec = self
        codec.pushKey = key
        return codec
    }

    /// The key that `keyingPushes(by:)` gives `push`; `nil` without it.
    public func pushKey(of push: Frame) -> PushKey? { pushKey?(push) }
}

extension LengthPrefixedCodec {
    /// The same codec, for which `key` says what a push is about (`FrameCodec.pushKey(of:)`).
    public func keyingPushes(by key: @escaping @Sendable (Frame) -> PushKey?) -> LengthPrefixedCodec {
        var codec = self
        codec.reading.pushKey = key
        return codec
    }

    /// What `keyingPushes(by:)` says; `nil` without it.
    public func pushKey(of push: Frame) -> PushKey? { reading.pushKey?(push) }
}
