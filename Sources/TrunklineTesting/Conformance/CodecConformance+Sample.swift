public import TrunklineCore

extension CodecConformance {
    /// Frames that one side sends, or bytes that one side receives.
    public struct Sample: Sendable {
        enum Content: Sendable {
            case frames([Frame])
            case bytes([UInt8], [Frame]?)
            case refused([UInt8], FrameError.Code?)
        }

        let content: Content
        let receiver: Side
        let answered: [Frame]
        var preamble: [Preamble] = []
        var vector: [UInt8]?
        var endsWithConnection = false
        /// It comes once on a link, with nothing after it.
        var isAlone = false

        /// Creates a sample of one frame.
        ///
        /// The client sends it if it is a request, a cancellation, a ping or a pong; otherwise the server does.
        ///
        /// - Parameters:
        ///   - frame: The frame as the receiver must decode it. Do not set properties that the protocol does not
        ///     transmit. Named fields that the frame does not set may arrive with any value.
        ///   - request: The request that the frame answers, for codecs that need to know it. It is checked as a sample,
        ///     too.
        ///   - bytes: The bytes that the frame must be encoded as, or `nil`, the default, to leave them unchecked.
        public init(_ frame: Frame, answering request: Frame? = nil, bytes: [UInt8]? = nil) {
            self.init([frame], answering: request.map { [$0] } ?? [])
            vector = bytes
        }

        /// Creates a sample of frames that follow each other, such as the parts of a reply, or an error response and
        /// the frames after it.
        ///
        /// - Parameters:
        ///   - frames: The frames, all from the same sender.
        ///   - requests: The requests that the frames answer, for codecs that need to know them. They are checked as
        ///     samples, too.
        public init(_ frames: [Frame], answering requests: [Frame] = []) {
            content = .frames(frames)
            answered = requests
            receiver =
                switch frames.first?.kind {
                case .request, .cancel, .ping, .pong: .server
                default: .client
                }
        }

        private init(_ content: Content, _ receiver: Side, _ answered: [Frame]) {
            self.content = content
            self.receiver = receiver
            self.answered = answered
        }

        /// Creates a sample of bytes that form complete frames, as a real peer sends them.
        ///
        /// Use it for bytes that the codec would not encode itself.
        ///
        /// - Parameters:
        ///   - bytes: The bytes of one or more complete frames.
        ///   - frames: The frames that decoding must return. With `nil`, any frames are allowed, and only consistency
        ///     is checked.
        ///   - receiver: The side that receives them. Default: the client.
        ///   - requests: The requests that the client has sent before.
        ///   - endsWithConnection: Whether the connection ends after the bytes, which completes the last frame
        ///     (`decodeEnd`). Default `false`.
        public static func bytes(
            _ bytes: [UInt8],
            are frames: [Frame]?,
            receivedBy receiver: Side = .client,
            answering requests: [Frame] = [],
            endsWithConnection: Bool = false
        ) -> Sample {
            var sample = Sample(.bytes(bytes, frames), receiver, requests)
            sample.endsWithConnection = endsWithConnection
            return sample
        }

        /// Creates a sample of bytes that the codec must refuse without waiting for further bytes, however they are
        /// split.
        ///
        /// Examples are a header with a length above the limit, or a constant field with a wrong value. A codec may
        /// throw, or return a frame with a `malformedReason`.
        ///
        /// - Parameters:
        ///   - bytes: The invalid bytes.
        ///   - code: The expected error code, or `nil`, the default, for any.
        ///   - receiver: The side that receives them. Default: the client.
        ///   - requests: The requests that the client has sent before.
        public static func refused(
            _ bytes: [UInt8],
            with code: FrameError.Code? = nil,
            receivedBy receiver: Side = .client,
            answering requests: [Frame] = []
        ) -> Sample {
            Sample(.refused(bytes, code), receiver, requests)
        }

        /// Returns the sample on a link that has carried `preamble` before, such as a greeting or what switches the
        /// codec to another mode.
        ///
        /// Both sides encode and decode the preamble before each check of the sample. To check the preamble itself,
        /// pass its frames as samples, too. Samples with different preambles are not merged in one buffer.
        public func after(_ preamble: [Preamble]) -> Sample {
            var sample = self
            sample.preamble = preamble
            return sample
        }

        /// Returns the sample as one that can come only once on a link, such as the acknowledgement of everything
        /// before it, or the frame that closes a channel. It is not merged in one buffer with itself, or with other
        /// samples.
        public func alone() -> Sample {
            var sample = self
            sample.isAlone = true
            return sample
        }
    }

    /// A frame that a link has carried before a sample: see ``Sample/after(_:)``.
    public enum Preamble: Sendable, Hashable {
        /// The client has sent this frame.
        case sent(Frame)
        /// The server has sent this frame. Without a server side (``hasServerSide``), use bytes.
        case received(Frame)
        /// The client has received these bytes, of one or more frames. The codec of the server side does not learn of
        /// them.
        case receivedBytes([UInt8])
    }
}
