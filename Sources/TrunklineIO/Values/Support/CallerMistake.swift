/// Not a `precondition`, whose message is not printed in release builds.
@usableFromInline
package func require(_ condition: Bool, _ message: @autoclosure () -> String, _ file: StaticString, _ line: UInt) {
    if !condition { fatalError(message(), file: file, line: line) }
}
