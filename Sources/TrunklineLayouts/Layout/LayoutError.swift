import TrunklineCore

/// The reason why fields are not a valid ``FrameLayout``, or why roles do not fit it.
public struct LayoutError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The invalid field or role. A field has its position, counted from 1, as in `field 3, length (4 bytes)`. If
    /// requests and responses have different fields, also the list: `request field 3, length (4 bytes)`.
    package let field: String
    /// What is wrong with the field or role.
    package let message: String

    package init(_ field: String, _ message: String) {
        self.field = field.escaped()
        self.message = message.asMessage
    }

    /// Returns what `body` returns. An error stops the program, as a mistake of the caller at `file` and `line`.
    static func stopping<Result>(
        _ file: StaticString,
        _ line: UInt,
        _ body: () throws(LayoutError) -> Result
    ) -> Result {
        do throws(LayoutError) {
            return try body()
        } catch {
            fatalError("FrameLayout: \(error)", file: file, line: line)
        }
    }

    /// The field or role, and what is wrong with it.
    public var description: String { "\(field): \(message)" }
}
