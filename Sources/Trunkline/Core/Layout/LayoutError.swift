/// Why fields do not make a `FrameLayout`, or roles do not fit one.
public struct LayoutError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The field or role at fault, with its position counted from 1, as in `field 3, length (4 bytes)`.
    /// Where requests and responses have layouts of their own: `request field 3, length (4 bytes)`.
    package let field: String
    /// What is wrong with it.
    package let message: String

    init(_ field: String, _ message: String) {
        self.field = field.escaped()
        self.message = message.asMessage
    }

    /// What `body` returns; an error stops the program, as a mistake of the caller at `file` and `line`.
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

    /// The field and what is wrong with it.
    public var description: String { "\(field): \(message)" }
}
