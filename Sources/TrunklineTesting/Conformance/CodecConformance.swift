public import Trunkline

/// Checks that a codec keeps what a `FrameCodec` promises, on sample frames and on what can become of their bytes.
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
/// Every sample is encoded by one side and decoded by the other (`serverSide()`), then fed in every split and merge, cut
/// short, made too large and corrupted; below is what is looked for. All of it is decided by the seed and takes a
/// second or two in a debug build. Give codecs with a large limit a smaller one to be checked with: a limit of some kilobytes is
/// checked faster and no less well.
///
/// | Rule | |
/// |---|---|
/// | `roundTrip` | What one side encodes the other decodes: the same frames, no more and no fewer, whatever is in their bodies |
/// | `vector` | Frames become the bytes, and bytes the frames, that a sample says |
/// | `copies` | Copies of a codec share nothing: every link has its own state |
/// | `determinism` | The same bytes give the same frames, the same frame the same bytes |
/// | `append` | `encode` appends, whatever is in the buffer before it |
/// | `truncation` | A frame that is not complete is neither decoded nor refused, also when the connection ends |
/// | `split`, `merge` | Where the bytes are split makes no difference; each frame takes its own bytes and no others |
/// | `progress` | No frame without bytes |
/// | `limit` | What is too large is refused both ways, a length before its body is awaited |
/// | `matching` | Every serial number of `matching` travels, and responses have those of their requests |
/// | `heartbeat`, `cancellation` | Pings, pongs and cancellations arrive as what they are |
/// | `window` | Both sides agree on which frames of a client are window updates |
/// | `refusal` | Bytes that a sample says are wrong are refused |
///
/// A codec that traps ends the process, and one that never returns hangs it: `announcesInputs` then says on what.
public struct CodecConformance: Sendable {
    /// Who receives.
    public enum Side: Sendable, Hashable {
        /// The codec itself.
        case client
        /// Its `serverSide()`.
        case server
    }

    let client: any FrameCodec
    let server: any FrameCodec
    let samples: [Sample]
    let maximumFrameSize: Int

    /// The same protocol with a limit at least twice as high, to make frames with that are too large for the codec; set
    /// for layouts. Without it, lengths are only raised by corruption, and by samples that are `refused` with
    /// `illegalLength`: headers of frames that are too large, one for each side.
    public var relaxed: (any FrameCodec)?
    /// Whether `serverSide()` decodes requests and encodes responses; true unless set. Without, requests are encoded and
    /// not decoded, and what the server sends must be given as bytes.
    public var hasServerSide = true
    /// Whether any bytes are a body; true unless set. Set it to false where bodies have a grammar of their own, so that
    /// other bytes than the samples' may be refused, or arrive as others than were sent.
    public var bodiesAreOpaque = true
    /// Whether parts end where the network happened to cut them, so that only the reply that is joined from them is the
    /// same at every split; false unless set.
    public var joinsParts = false
    /// Decides everything that is random. 1 unless set; check with several for more inputs.
    public var seed: UInt64 = 1
    /// How many corrupted samples and runs of random bytes each side is fed; 3000 unless set.
    package var garbageInputs = 3000
    /// With how many single-byte corruptions of the samples each side is fed at most; 65,536 unless set. Up to 257 bytes of
    /// samples, these are every value of every byte.
    package var corruptedInputs = 65_536
    /// Writes every input to standard error before it is fed: when the codec traps or hangs, the last line says on what.
    public var announcesInputs = false

    /// A check of `codec`.
    ///
    /// - Parameters:
    ///   - codec: The protocol as a client sees it, as it is before anything was decoded.
    ///   - samples: Frames, or bytes, of every kind that the protocol has.
    ///   - maximumFrameSize: The size of the largest whole frame that the codec takes, in bytes on the wire.
    ///   - file, line: Named when the program is stopped for a size that no frame has.
    public init(
        of codec: some FrameCodec,
        samples: [Sample],
        maximumFrameSize: Int,
        file: StaticString = #fileID,
        line: UInt = #line
    ) {
        require(maximumFrameSize > 0, "CodecConformance: maximumFrameSize \(maximumFrameSize)", file, line)
        client = codec
        server = codec._serverSide()
        self.samples = samples
        self.maximumFrameSize = maximumFrameSize
        if var layout = codec as? FrameLayout, let limit = Int(exactly: 2 * Double(maximumFrameSize)) {
            layout.maximumFrameSize = max(limit, layout.maximumFrameSize)
            relaxed = layout
        }
    }

    /// A check of `layout` with the limit that it has, or 64 KiB if that is less: of a larger one nothing more is learnt.
    public init(of layout: FrameLayout, samples: [Sample]) {
        var layout = layout
        layout.maximumFrameSize = min(layout.maximumFrameSize, 64 * 1024)
        self.init(of: layout, samples: samples, maximumFrameSize: layout.maximumFrameSize)
    }

    /// Checks everything and says what is wrong.
    public func check() -> Report {
        var run = ConformanceRun(self)
        run.checkAll()
        return run.report
    }
}
