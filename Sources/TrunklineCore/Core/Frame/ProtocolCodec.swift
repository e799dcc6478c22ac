/// The codec that was passed to a client, a connection or a test server. It is asked about the protocol; the codec of a
/// link (`LinkCodec`) is asked about that link.
///
/// Optional capabilities are found by casts, so a conformance is seen wherever it is declared: in another module, by a
/// subclass, or under a condition. What is asked for each frame is cast once, when this object is created.
package final class ProtocolCodec: Sendable {
    /// Each link begins with a copy of it.
    package let base: any FrameCodec
    /// Whether responses are compared with their requests.
    package let checksResponses: Bool
    /// Whether `decode` calls both pings and their answers `.ping`.
    package let pongsLookLikePings: Bool
    /// Whether each request is asked for its name, if names are kept.
    package let namesEachRequest: Bool
    /// How serials are chosen.
    package let numbering: SerialNumbering
    private let posting: any PostingCodec
    private let windowed: any WindowedCodec

    package init(_ base: any FrameCodec) {
        self.base = base
        checksResponses = (base as? any ResponseCheckingCodec)?.checksResponses ?? false
        pongsLookLikePings = (base as? any HeartbeatCodec)?.pongsLookLikePings ?? false
        numbering = (base as? any SerialNumberingCodec).map { SerialNumbering($0) } ?? SerialNumbering()
        posting = base as? any PostingCodec ?? Unrefined()
        windowed = base as? any WindowedCodec ?? Unrefined()
        namesEachRequest = (base as? any NamingCodec)?.namesEachRequest ?? false
    }

    package var matching: ResponseMatching { base.matching }

    // MARK: For each frame

    /// Whether `message` may be sent as a one-way message.
    package func mayPost(_ message: Frame) -> Bool { posting.mayPost(message) }

    /// Whether `frame` is a window update.
    package func isWindowUpdate(_ frame: Frame) -> Bool { windowed.isWindowUpdate(frame) }

    // MARK: Rarely

    /// The name of a request, ready to be shown; `nil` if it has none.
    package func name(of request: Frame) -> String? {
        guard let name = (base as? any NamingCodec)?.name(of: request), !name.isEmpty else { return nil }
        return name.escaped(upTo: Self.maximumName)
    }

    /// The number of scalars of a name, before the mark that it was cut.
    private static let maximumName = 64

    /// Whether a name, which may come from anywhere, is short enough for one of `name(of:)`.
    package static func mayName(_ name: String) -> Bool { name.unicodeScalars.count <= maximumName + 2 }

    /// The maximum number of requests in flight on one channel.
    package var maximumInFlightPerChannel: Int { (base as? any ChannelCodec)?.maximumInFlightPerChannel ?? .max }

    /// The codec that returns the keys of pushes; `nil` if pushes have none. To be read once for a batch of pushes.
    package var pushKeys: (any PushKeyCodec)? { base as? any PushKeyCodec }

    /// Whether `response`, which is not an error response, may be cached.
    package func mayCache(_ response: Frame) -> Bool { (base as? any CachingCodec)?.mayCache(response) ?? true }

    /// Whether there is a ping on a new link.
    package var hasPing: Bool { (base as? any HeartbeatCodec)?.ping(number: 0) != nil }

    /// Whether requests of `type` can be cancelled on the server.
    package func cancels(_ type: UInt32) -> Bool {
        (base as? any CancellingCodec)?.cancelFrame(for: 0, type: type) != nil
    }

    /// Whether the client ends the link when it abandons a request of which the last piece was not sent.
    ///
    /// In order, the next request would be read as the rest of the abandoned one, so this is true unless the codec says
    /// that there is another way.
    package var abandoningEndsLink: Bool {
        (base as? any UploadCodec)?.abandoningEndsLink ?? (matching == .inOrder)
    }

    /// Returns the codec of the server side; the same codec if the protocol has no other.
    package func serverSide() -> any FrameCodec { (base as? any ServerSideCodec)?.serverSide() ?? base }
}

/// Stands for a capability that a codec does not have. Never decodes or encodes.
private struct Unrefined: PostingCodec, WindowedCodec {
    var matching: ResponseMatching { .inOrder }
    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { nil }
    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {}
    func mayPost(_ message: Frame) -> Bool { true }
    func isWindowUpdate(_ frame: Frame) -> Bool { false }
}
