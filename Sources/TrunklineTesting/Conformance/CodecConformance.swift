public import TrunklineCore
public import TrunklineLayouts

/// Checks that a codec follows the rules of `FrameCodec`, with sample frames and many variants of their bytes.
///
/// ```swift
/// let report = CodecConformance(
///     of: AcmeCodec(),
///     samples: [.init(request), .init(response, answering: request), .init(push)],
///     maximumFrameSize: 8192
/// ).check()
/// #expect(report.violations.isEmpty, "\(report)")
/// ```
///
/// One side encodes every sample and the other (`serverSide()`) decodes it. Then the bytes are split and merged in
/// every way, cut short, made too large, and corrupted. The seed determines all random choices, so a check is
/// repeatable. It takes one or two seconds in a debug build. If the codec has a large limit, check it with a limit of a
/// few kilobytes: the check is faster and finds the same errors.
///
/// | Rule | Meaning |
/// |---|---|
/// | `roundTrip` | Each side decodes what the other encodes: the same frames, whatever their bodies contain |
/// | `vector` | Frames are encoded as, and bytes decoded to, what a sample specifies |
/// | `copies` | Copies of a codec share no state: every link has its own |
/// | `determinism` | The same bytes give the same frames, and the same frame gives the same bytes |
/// | `append` | `encode` appends, whatever is already in the buffer |
/// | `truncation` | An incomplete frame is neither decoded nor refused, also when the connection ends |
/// | `split`, `merge` | The frames do not depend on where bytes are split; each frame consumes its own bytes only |
/// | `progress` | No frame is decoded from zero bytes |
/// | `limit` | `encode` and `decode` refuse frames that are too large, and `decode` does so before the body arrives |
/// | `matching` | Every serial number of `matching` is transmitted, and responses carry the serials of their requests |
/// | `heartbeat`, `cancellation` | Pings, pongs and cancellations arrive as such |
/// | `window` | Both sides agree on which frames of a client are window updates |
/// | `refusal` | Bytes that a sample specifies as invalid are refused |
///
/// A codec that traps ends the process, and one that never returns hangs it. Set ``announcesInputs`` to find the input.
public struct CodecConformance: Sendable {
    /// The side of a connection that receives a sample.
    public enum Side: Sendable, Hashable {
        /// The client: the codec itself.
        case client
        /// The server: the codec's `serverSide()`.
        case server
    }

    let client: ProtocolCodec
    let server: ProtocolCodec
    let samples: [Sample]
    let maximumFrameSize: Int

    /// A codec for the same protocol with a limit at least twice as high. The check uses it to encode frames that are
    /// too large for the checked codec.
    ///
    /// Set automatically for layouts, otherwise `nil`. If it is `nil`, pass a sample that must be `refused` with
    /// `illegalLength` for each side: the header of a frame that is too large. Apart from such samples, only corrupted
    /// bytes then contain lengths above the limit.
    public var relaxed: (any FrameCodec)?
    /// Whether `serverSide()` decodes requests and encodes responses. Default `true`.
    ///
    /// If `false`, requests are encoded but not decoded, and samples of what the server sends must be bytes.
    public var hasServerSide = true
    /// Whether a body may contain any bytes. Default `true`.
    ///
    /// Set it to `false` if bodies have their own syntax, so that bodies other than those of the samples may be refused
    /// or changed.
    ///
    /// With either value `encode` may refuse a body, for example in a frame that has none. With `true`, every body that
    /// `encode` accepts must arrive unchanged. The check tries other bodies in the first sample that consists of one
    /// request, of one response, and of one push. Begin the samples with frames that may have any body.
    public var bodiesAreOpaque = true
    /// Whether the boundaries of parts depend on how the network splits the bytes. Default `false`.
    ///
    /// If `true`, the parts of a reply are joined before they are compared.
    public var joinsParts = false
    /// Whether the wire carries the serials of frames. Default `true`.
    ///
    /// Set it to `false` if the codec derives them from something else, such as a name in the body. Those that the
    /// server decodes are then not compared. A response must still have the serial of a request that the client has
    /// sent (``Sample/init(_:answering:bytes:)``).
    public var transmitsSerials = true
    /// The received frames that are left out when samples are compared, apart from those of the kind `ignored`. Default
    /// `nil`: none.
    public var ignoredFrames: (@Sendable (Frame) -> Bool)?

    func isIgnored(_ frame: Frame) -> Bool { frame.kind == .ignored || ignoredFrames?(frame) == true }
    /// The session with which the codecs of new links begin, if the codec is a `SessionCodec`. Default `nil`: none, as
    /// on the first link of a client.
    ///
    /// With a session, the check holds for a link that resumes it: check the codec once without and once with one.
    public var session: (any Sendable)?
    /// The seed of all random choices. Default 1. To check more inputs, run the check with several seeds.
    public var seed: UInt64 = 1
    var garbageInputs = 3000
    /// For each side. The default covers every value of every byte for samples of up to 257 bytes in total.
    var corruptedInputs = 65_536
    /// Whether every input is written to standard error before it is decoded. Default `false`. If the codec traps or
    /// hangs, the last line is the input.
    public var announcesInputs = false

    /// Creates a check of `codec`.
    ///
    /// - Parameters:
    ///   - codec: The client's codec, in its initial state.
    ///   - samples: Frames or bytes of every kind that the protocol has.
    ///   - maximumFrameSize: The size of the largest complete frame that the codec accepts, in bytes on the wire. If it
    ///     depends on the direction or on the type of the frame, pass the largest; smaller limits are then checked only
    ///     by samples that are `refused`. At least 1 (less counts as 1).
    public init(
        of codec: some FrameCodec,
        samples: [Sample],
        maximumFrameSize: Int
    ) {
        client = ProtocolCodec(codec)
        server = ProtocolCodec(client.serverSide())
        self.samples = samples
        self.maximumFrameSize = max(1, maximumFrameSize)
        if var layout = codec as? FrameLayout, let limit = Int(exactly: 2 * Double(maximumFrameSize)) {
            layout.maximumFrameSize = max(limit, layout.maximumFrameSize)
            relaxed = layout
        }
    }

    /// Creates a check of `layout` with its own limit, or 64 KiB if that is smaller: a larger limit would not find more
    /// errors.
    ///
    /// - Parameters:
    ///   - layout: The client's layout.
    ///   - samples: Frames or bytes of every kind that the protocol has.
    public init(of layout: FrameLayout, samples: [Sample]) {
        var layout = layout
        layout.maximumFrameSize = min(layout.maximumFrameSize, 64 * 1024)
        self.init(of: layout, samples: samples, maximumFrameSize: layout.maximumFrameSize)
    }

    /// Performs all checks and returns the result.
    public func check() -> Report {
        var run = ConformanceRun(self)
        run.checkAll()
        return run.report
    }
}
