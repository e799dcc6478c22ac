public import TrunklineCore

extension FrameLayout {
    /// The roles of a layout's frames. Each property is a role, and `nil` means that the protocol does not have it.
    ///
    /// ```swift
    /// acme.roles {
    ///     $0.push = .field("flow", 2)
    ///     $0.part = .bit(0, of: "flags")
    ///     $0.success = 200
    ///     $0.requests = 3...99
    /// }
    /// ```
    ///
    /// The layout adds the type and the marks of its kind to a frame that is sent. So ``Frame/type`` is the same in a
    /// request and in its responses. <doc:FormatReference#How-a-received-frame-gets-its-kind> says in which order the
    /// roles apply to a received frame.
    ///
    /// The fields must exist, and every number must fit its field. A range without an upper bound ends at the largest
    /// number of the field. Each property says which other roles and fields it requires or excludes. A type number, a
    /// number of a named field or a mark cannot have two roles, with a few exceptions for type numbers:
    /// <doc:FormatReference#Which-roles-are-errors> lists them.
    public struct Roles: Sendable {
        /// The type of pings, in both directions.
        ///
        /// Without `ping` and ``heartbeat``, a link has no heartbeat. The two cannot be combined.
        public var ping: UInt32?

        /// The type of the answers to pings; by default the type of ``ping``. Requires `ping`.
        ///
        /// If the types are the same and nothing marks responses, a ping counts as the answer while the client waits
        /// for one. Other pings are then answered at most once a second.
        public var pong: UInt32?

        /// A request that serves as a ping, for protocols without a ping.
        ///
        /// Choose one that costs the server little, such as Modbus's diagnostics or a DNS query for the root. It is
        /// sent with the type, body and named fields that it has here, and with one of the serials below ``serials``,
        /// so `serials` must begin at 1 or above. Every response with such a serial, including an error response, is
        /// the answer to a ping. A layout without serials needs a kind field that lists `pong` instead.
        ///
        /// Cannot be combined with ``ping``.
        public var heartbeat: Frame?

        /// The type of the frame that cancels the request with the same serial.
        ///
        /// By default, the client does not tell the server that it has cancelled a request. Requires a serial field.
        public var cancel: UInt32?

        /// The types, or the mark, by which the server announces that it is about to close the link; by default, no
        /// frames.
        ///
        /// If a `goAway` has a type of pushes, use ``kind`` to distinguish it.
        public var goAway: Role?

        /// The named field of a ``goAway`` frame that holds the retry delay. Default: none.
        ///
        /// Requires a way to recognize such frames: `goAway`, ``kind``, or a kind field that lists `goAway`.
        public var retryAfter: RetryAfterField?

        /// The type of the final frame before an orderly close, such as SMPP's `unbind`. Default: none.
        ///
        /// The frame is a request with an empty body; its serial is 1 if ``serials`` begins above 1, and otherwise 0.
        /// The client does not wait for an answer. See ``ClosingCodec/closingFrame()``.
        public var closing: UInt32?

        /// The type of the frame by which the client accepts more bytes of the reply to the request with the same
        /// serial. Default: none. See ``WindowedCodec/isWindowUpdate(_:)``.
        ///
        /// Requires a serial field.
        public var window: UInt32?

        /// The types, or the mark, of messages that the server sends without a request.
        ///
        /// By default, no frames; with ``response``, all frames that are not responses.
        public var push: Role?

        /// The mark that responses have and all other frames do not have.
        ///
        /// By default, all frames without another role are responses. Cannot be combined with a kind field.
        public var response: Role?

        /// The types, or the mark, of a part of a reply with more to come. By default, each reply is one frame.
        ///
        /// Types also mark parts of requests (``Client/open(_:timeout:partTimeout:options:buffering:)``), except types
        /// that are in ``requests`` or that ``closing`` has. A kind field that lists `part` marks both too.
        public var part: Role?

        /// The statuses of responses that are not error responses; 0 by default. Requires a status field.
        public var success: Statuses?

        /// The mark of an error response, in addition to its status. Default: none.
        ///
        /// In a layout without a status field, the number that the mark tests (`.bits`, `.field`) becomes the
        /// ``Frame/status`` of the error response.
        public var failure: Role?

        /// The place where an error response by ``failure`` holds its code, in a layout without a status field.
        ///
        /// With `.body(UInt8.self)`, the first byte of the body becomes the ``Frame/status``, or 0 if there is no body.
        /// If an error response is sent with a status and without a body, the status becomes its body. By default, the
        /// code is the number that `failure` tests, if any. Requires `failure`.
        public var failureCode: FailureCode?

        /// The types of requests and their responses, such as `3...`; all by default.
        ///
        /// Sending a frame with a type that is not one of these and has no other role fails with `unknownType`. A
        /// received frame with such a type is malformed (``Frame/malformedReason``), and only the request with its
        /// serial fails. In a layout without serials, such a frame ends the link.
        public var requests: (any RangeExpression<UInt32>)? {
            get { requestTypes.map { range(of: $0) } }
            set { requestTypes = newValue.map { numbers(of: $0) } }
        }

        /// The serials of the client's requests, such as `50...`; by default `1...`, up to the largest that fits in the
        /// serial field.
        ///
        /// Pings use the serials below this range, so leave some serials for them. Requires a serial field.
        public var serials: (any RangeExpression<SerialNumber>)? {
            get { serialNumbers.map { range(of: $0) } }
            set { serialNumbers = newValue.map { numbers(of: $0) } }
        }

        /// Whether the serials of requests are drawn at random from ``serials``, so that a response cannot be forged by
        /// someone who has not seen its request, instead of counted; `false` by default. Requires a serial field.
        public var usesRandomSerials = false

        /// The values of its request that a response, or a part of one, repeats: the type or named numbers. By default,
        /// nothing is compared.
        ///
        /// A response that differs fails that request with `protocolViolation`, fate `unknown`, because it may belong
        /// to another request. The request is cancelled, and its serial is quarantined. In a datagram, the response is
        /// dropped instead, and the request goes on waiting. In a layout without serials,
        /// the link ends, because later responses would go to the wrong requests too. A field that the request does not
        /// set has the default of the link. If types mark parts, parts need not repeat the type. To compare them, the
        /// client keeps each request until it is answered.
        public var responsesRepeat: [RepeatedField] = []

        /// A closure that makes the final decision; by default, the other roles decide.
        ///
        /// Its argument is a frame that the client received, with the kind that the other roles have set. It returns
        /// the frame's kind, or `nil` to reject the frame as malformed (`unknownType`). Called on the event loop, so it
        /// must not block. It has no effect on sent frames. When you send a frame, set the values that the closure
        /// reads yourself.
        public var kind: (@Sendable (Frame) -> Frame.Kind?)?

        package init() {}

        private(set) var requestTypes: ClosedRange<UInt64>?
        private(set) var serialNumbers: ClosedRange<UInt64>?
        var bodies: ClosedRange<UInt64>?

        var pushMark: Role? { push?.types == nil ? push : nil }
    }
}

extension FrameLayout.Roles {
    /// Statuses of responses: one, such as `200`, or several, such as `.statuses(200...299)`.
    public struct Statuses: Sendable, Hashable, ExpressibleByIntegerLiteral {
        let numbers: ClosedRange<UInt64>

        /// Creates the statuses that consist of `number`.
        public init(integerLiteral number: UInt32) { self = .status(number) }

        private init(_ numbers: ClosedRange<UInt64>) { self.numbers = numbers }

        /// Returns the statuses that consist of `number`.
        public static func status(_ number: UInt32) -> Statuses { .statuses(number...number) }

        /// Returns the statuses in a range. A range without an upper bound ends at the largest status of the field.
        public static func statuses(_ numbers: some RangeExpression<UInt32>) -> Statuses {
            Statuses(TrunklineLayouts.numbers(of: numbers))
        }
    }
}
