/// Collects the fields of `FrameLayout { … }` in the order in which they are written.
@resultBuilder
public enum LayoutBuilder {
    /// One field.
    public static func buildExpression(_ field: Field) -> [Field] { [field] }

    /// Several fields that were put together elsewhere.
    public static func buildExpression(_ fields: [Field]) -> [Field] { fields }

    /// One part after the other.
    public static func buildBlock(_ parts: [Field]...) -> [Field] { parts.flatMap { $0 } }

    /// An `if` without `else`.
    public static func buildOptional(_ part: [Field]?) -> [Field] { part ?? [] }

    /// The first branch of an `if` or `switch`.
    public static func buildEither(first part: [Field]) -> [Field] { part }

    /// A further branch of an `if` or `switch`.
    public static func buildEither(second part: [Field]) -> [Field] { part }

    /// A `for` loop.
    public static func buildArray(_ parts: [[Field]]) -> [Field] { parts.flatMap { $0 } }
}
