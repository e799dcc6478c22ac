/// The options of one request or one-way message: its `CallOptions`, with the client's options in place of the
/// defaults.
struct ResolvedOptions: Sendable {
    var retry = RetryPolicy.ifUnsent
    /// When the call was made.
    let accepted: Instant
    /// Whether the request may wait for a link.
    var waitsForReady = true
    var deadline: Instant?
    /// False for a one-way message.
    var expectsResponse = true
    /// The only session in which the request may go out; `nil` for any.
    var session: UInt64?
    /// Receives the timeline of the request.
    var recorder: TimelineRecorder?
    /// The fate of what the same call has sent before this request. See `ClientError.after(_:)`.
    var earlierFate = ClientError.Fate.notSent

    /// Whether the request fails if its link is lost before its first byte was written.
    var endsWithItsLink: Bool { retry == .never || !waitsForReady }

    /// Whether a request with these options needs a `TrackedCall`.
    @inline(__always)
    var areTracked: Bool {
        guard case .ifUnsent = retry, waitsForReady, session == nil, recorder == nil else { return true }
        return false
    }
}
