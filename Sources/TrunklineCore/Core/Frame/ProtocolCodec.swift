/// The codec that was passed to a client, a connection or a test server. Capabilities are found by casts, so a
/// conformance is seen wherever it is declared: in another module, by a subclass, or under a condition. What is asked
/// for each frame is cast once, here.
package final class ProtocolCodec: Sendable {
    /// Each link begins with a copy of it.
    package let base: any FrameCodec
    package let checksResponses: Bool
    package let pongsLookLikePings: Bool
    package let namesEachRequest: Bool
    let numbering: SerialNumbering
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

    func mayPost(_ message: Frame) -> Bool { posting.mayPost(message) }

    package func isWindowUpdate(_ frame: Frame) -> Bool { windowed.isWindowUpdate(frame) }

    package func name(of request: Frame) -> String? {
        guard let name = (base as? any NamingCodec)?.name(of: request), !name.isEmpty else { return nil }
        return name.escaped(upTo: Self.maximumName)
    }

    /// In scalars, before the mark that it was cut.
    private static let maximumName = 64

    /// Whether a name that may come from anywhere is short enough for one of `name(of:)`.
    package static func mayName(_ name: String) -> Bool { name.unicodeScalars.count <= maximumName + 2 }

    var maximumInFlightPerChannel: Int { (base as? any ChannelCodec)?.maximumInFlightPerChannel ?? .max }

    /// Read once for a batch of pushes.
    var pushKeys: (any PushKeyCodec)? { base as? any PushKeyCodec }

    package func mayCache(_ response: Frame) -> Bool { (base as? any CachingCodec)?.mayCache(response) ?? true }

    var hasPing: Bool { (base as? any HeartbeatCodec)?.ping(number: 0) != nil }

    package func cancels(_ type: UInt32) -> Bool {
        (base as? any CancellingCodec)?.cancelFrame(for: 0, type: type) != nil
    }

    /// In order, the next request would be read as the rest of the abandoned one, unless the codec has another way.
    var abandoningEndsLink: Bool {
        (base as? any UploadCodec)?.abandoningEndsLink ?? (matching == .inOrder)
    }

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
