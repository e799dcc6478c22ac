/// A request whose reply a stream reads.
package protocol ReplySource: AnyObject, Sendable {
    /// Returns the next part, the response after them, or `nil` at the end. `waited` is how long the reader has waited
    /// already.
    func next(after waited: Duration) async throws(ClientError) -> Response?

    func post(_ frame: Frame) async throws(ClientError)

    func abandon()

    /// For a reader that already knows why: the stream ends at once.
    func end()
}
