/// Marks that few frames have. Shared, because they do not change.
@usableFromInline
package final class FrameMarks: Sendable, Hashable {
    let content: Content

    fileprivate init(_ content: Content) { self.content = content }

    struct Content: Sendable, Hashable {
        var answers = Frame.Answers.one
        var answeredTypes: Set<UInt32>?
        var reason: ServerReason?
        var isFateUnknown = false
        var cancelledSerial: SerialNumber?
        var highSerial: UInt64 = 0
        var malformedMessage: String?
    }

    @usableFromInline
    package static func == (a: FrameMarks, b: FrameMarks) -> Bool { a.content == b.content }

    @usableFromInline
    package func hash(into hasher: inout Hasher) { hasher.combine(content) }
}

extension Frame {
    @inline(__always)
    var hasMarks: Bool { namedFields != nil && marks != nil }

    var marks: FrameMarks? {
        guard let first = namedFields?.first, case .marks(let marks) = first.value else { return nil }
        return marks
    }

    private mutating func setMark(_ change: (inout FrameMarks.Content) -> Void) {
        var content = marks?.content ?? FrameMarks.Content()
        change(&content)
        setNamed(fields, content == FrameMarks.Content() ? nil : FrameMarks(content))
    }
}

// MARK: - Malformed frames

extension Frame {
    /// Marks a received frame as malformed because of `error`; see ``malformedReason``, which is the code of the error.
    /// Only codecs call this method.
    ///
    /// The message of the error appears in the error of the request and in the log, so it must not contain secrets,
    /// such as bytes of the body.
    public mutating func markMalformed(because error: FrameError) {
        malformedReason = error.code
        setMark { $0.malformedMessage = error.message }
    }

    var malformedFinding: String { marks?.content.malformedMessage.map { ": \($0)" } ?? "" }
}

// MARK: - Serials of more than 64 bits

extension Frame {
    /// The serial number with all its bits, in protocols whose serials have more than 64 (``SerialNumberingCodec``).
    /// Its low 64 bits are ``serial``.
    ///
    /// The client sets it on the frames that it sends, for the codec to encode, and compares it in responses, in which
    /// the codec sets it.
    public var wideSerial: UInt128 {
        get { UInt128(highSerial) << 64 | UInt128(serial) }
        set {
            serial = SerialNumber(truncatingIfNeeded: newValue)
            highSerial = UInt64(truncatingIfNeeded: newValue >> 64)
        }
    }

    package var highSerial: UInt64 {
        get { marks?.content.highSerial ?? 0 }
        set { if newValue != highSerial { setMark { $0.highSerial = newValue } } }
    }

    package mutating func copySerial(of other: Frame) { (serial, highSerial) = (other.serial, other.highSerial) }
}

// MARK: - Marks of received frames

extension Frame {
    /// The requests that a received response answers, or to which a part of a reply belongs.
    ///
    /// In a protocol matched in order, `through` and `serials` name no request, and neither does `next` in one matched
    /// by serial: the frame counts as a response without a request (``ClientMetrics/unknownResponses``).
    @nonexhaustive
    public enum Answers: Sendable, Hashable {
        /// The request with the ``Frame/serial`` of the frame or, matched in order, the oldest one, of its channel if
        /// there are several.
        case one
        /// Matched by serial: the request with the ``Frame/serial`` of the frame and those with earlier serials: a
        /// cumulative acknowledgement.
        ///
        /// The order of serials is the one in which the client uses them, across the end of the range too. So the range
        /// (``ResponseMatching/serial(_:)``) must have more than twice as many serials as there are requests in flight
        /// (`options.requests.maximumInFlight`).
        case through
        /// Matched by serial: the requests with serials in these ranges, for example a selective acknowledgement.
        /// Ranges may overlap, be in any order, and contain serials that no request has. A frame with more than
        /// ``maximumRanges`` ends the link; a datagram is dropped.
        case serials([ClosedRange<SerialNumber>])
        /// Matched in order: this many of the oldest requests, of the channel of the frame if there are several. A
        /// response with `.next(.max)` ends a channel.
        case next(Int)
        /// Every request of which at least one byte was written, on every channel.
        case all

        /// The number of ranges that one response or part may name (``serials(_:)``): 16,384.
        ///
        /// A received frame with more ends its link with the frame error `illegalLength`: which requests it answers
        /// stays open, so those in flight fail with `overloaded`, fate `unknown`. A datagram is dropped and counted
        /// (``ConnectionMetrics/droppedDatagrams``).
        public static var maximumRanges: Int { 16_384 }
    }

    /// The requests that this received response answers, or to which this received part belongs, by default one. A
    /// codec sets it.
    ///
    /// Each of them receives a copy of the frame with its own serial, once, even if it is named more than once. A
    /// request of which no byte was written is never named, whatever its serial. The frame is not compared with its
    /// requests (``ResponseCheckingCodec``). Has no effect on frames of other kinds.
    ///
    /// - A response ends its requests: each counts as answered.
    /// - A part is added to the reply of each of its requests like a part for that request alone: it begins the time of
    ///   the next part (`partTimeout`) anew, fills the buffer of the stream (``ReplyBuffering``), and `send` joins its
    ///   body with the rest. For requests that were abandoned it is discarded. If it names such a request alone, by
    ///   `.one` or by a range of one serial, the quarantine of the serial (`options.requests.quarantine`) begins anew:
    ///   the server still works on the request. A part for all requests, or for a wider range, does not prolong it.
    ///
    /// If one stream cannot take a part and suspends reading, the frames that follow wait, as after any part. A part
    /// that belongs to very many requests may let the frames after it, except pings and pongs, wait for the next turn
    /// of the event loop.
    public var answers: Answers {
        get { marks?.content.answers ?? .one }
        set { setMark { $0.answers = newValue } }
    }

    /// The types of the requests that this response can answer, or to which this part can belong, if they are several
    /// (``answers``); `nil`, the default, for all. A codec sets it if requests of other types have serials of the same
    /// range and are answered separately.
    public var answeredTypes: Set<UInt32>? {
        get { marks?.content.answeredTypes }
        set { setMark { $0.answeredTypes = newValue } }
    }

    /// Why the server answers with an error, or ends the link, in its own words; `nil`, the default, if they are not
    /// known. A codec sets it on a received frame.
    ///
    /// Of everything in a frame, only this appears in errors and in the log, and it is counted by its name in the
    /// metrics.
    public var reason: ServerReason? {
        get { marks?.content.reason }
        set { setMark { $0.reason = newValue } }
    }

    /// Whether this error response leaves open whether the server has processed the request. Default false. A codec
    /// sets it on a received response with ``isErrorResponse``, for example if the server has closed a channel with
    /// everything that was in flight on it.
    ///
    /// The request fails with `interrupted`, fate `unknown`, instead of `rejected`, fate `answered`. The link stays.
    public var isFateUnknown: Bool {
        get { marks?.content.isFateUnknown ?? false }
        set { setMark { $0.isFateUnknown = newValue } }
    }
}

// MARK: - Marks of cancel frames

extension Frame {
    /// The serial of the request that this cancel frame cancels, if the frame has a ``serial`` of its own; otherwise
    /// `nil`.
    ///
    /// The client sets it on the cancel frames of some protocols (``CancelKind``), for the codec to encode. The codec
    /// of a test server sets it when it decodes such a frame.
    public var cancelledSerial: SerialNumber? {
        get { marks?.content.cancelledSerial }
        set { setMark { $0.cancelledSerial = newValue } }
    }
}
