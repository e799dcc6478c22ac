import TrunklineCore

/// The reason why fields are not a valid ``FrameLayout``, or why roles do not fit it.
public struct LayoutError: Error, Hashable, Sendable, CustomStringConvertible {
    /// With its position from 1, and its direction if they differ: `request field 3, length (4 bytes)`.
    let field: String
    let message: String

    package init(_ field: String, _ message: String) {
        self.field = field.escaped()
        self.message = message.asMessage
    }

    /// An error stops the program, as a mistake of the caller at `file` and `line`.
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
