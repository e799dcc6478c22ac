public import Trunkline

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
        /// The requests that the client has sent before it receives this.
        let answered: [Frame]
        /// The bytes that the frames must become.
        var vector: [UInt8]?
        /// Whether the end of the connection is the end of the last frame.
        var endsWithConnection = false

        /// A frame: sent by the client if it is a request, a cancellation, a ping or a pong, otherwise by the server.
        ///
        /// - Parameters:
        ///   - frame: As it is to arrive: what the protocol does not carry is left out. Named fields that it does not set
        ///     may arrive with any value.
        ///   - request: What it answers, for codecs that must know. The request is a sample too.
        ///   - bytes: What it must become on the wire, if that is to be checked.
        public init(_ frame: Frame, answering request: Frame? = nil, bytes: [UInt8]? = nil) {
            self.init([frame], answering: request.map { [$0] } ?? [])
            vector = bytes
        }

        /// Frames that come one after the other: an answer in parts, an error response and what follows. All have one
        /// sender.
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

        /// Bytes of whole frames as a real peer sends them, perhaps as no codec here would encode them.
        ///
        /// - Parameters:
        ///   - bytes: One frame or several.
        ///   - frames: What they are; `nil` to leave that open and only check that it is always the same.
        ///   - receiver: Who receives them.
        ///   - requests: What the client has sent before.
        ///   - endsWithConnection: Whether the connection ends after them and completes the last frame (`decodeEnd`).
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

        /// Bytes that must be refused, however they are split, without any more of them: a header with a length above the
        /// limit, a constant that is none. Returning a frame with `malformedReason` refuses them too. `code` is what
        /// they are refused with, if that matters.
        public static func refused(
            _ bytes: [UInt8],
            with code: FrameError.Code? = nil,
            receivedBy receiver: Side = .client,
            answering requests: [Frame] = []
        ) -> Sample {
            Sample(.refused(bytes, code), receiver, requests)
        }
    }
}
