extension FrameLayout {
    /// Returns a copy of this layout with these roles, which say what its frames are for. They replace all earlier
    /// roles.
    ///
    /// A role is a type number (`7`), several type numbers (`.types(2...0x400)`), or a *mark*: a bit or number
    /// elsewhere in the header, such as `.bit(31)` of the type or `.field("source", 7...9)`; see ``Role``.
    ///
    /// ```swift
    /// smpp.roles(ping: 0x15, response: .bit(31), goAway: 0x06)
    /// modbus.roles(heartbeat: Frame(.request, type: 8, body: [0, 0, 0, 0]), failure: .bit(7), serials: 16...)
    /// acme.roles(push: .field("flow", 2), part: .bit(0, of: "flags"), success: 200, requests: 3...99)
    /// ```
    ///
    /// Roles that do not fit the fields, or that contradict each other, stop the program with a message that names the
    /// role.
    ///
    /// ### How a received frame gets its kind
    ///
    /// 1. A ``Field/kind(_:_:order:)`` field, if there is one, gives the kind. Otherwise, with the role `response`,
    ///    frames with its mark are responses, and all others are pushes (requests of the server, if the role `push` is
    ///    given). Otherwise every frame is a response.
    /// 2. The types of `ping`, `pong` and `cancel` override this.
    /// 3. The roles `goAway` and `push` apply, except to frames that are marked as responses.
    /// 4. A response with a serial below `serials` is a pong if there is a `heartbeat`.
    /// 5. A response with the role `part` is a part.
    /// 6. The closure `kind` may change the result.
    /// 7. A response or part whose type is not one of `requests` is malformed.
    ///
    /// The layout adds the type and the marks of its kind to a frame that is sent. So ``Frame/type`` is the same in a
    /// request and in its responses.
    ///
    /// ### Roles with the same type
    ///
    /// A type number cannot have two of the roles `ping`, `pong`, `cancel`, `window`, `closing`, `goAway`, `push`,
    /// `part` and `requests`, with these exceptions:
    /// - `pong` may have the type of `ping`, and `closing` that of `goAway`.
    /// - `part` and `closing` may have types of `requests` and of each other.
    /// - If something marks responses (the role `response`, or a kind field that lists pushes), `push` and `goAway` may
    ///   have types of `requests` and `part`, and `closing` may have a type of `push`.
    /// - `requests` may contain types of other roles, but not at its ends.
    ///
    /// Numbers of a named field cannot have two roles either.
    ///
    /// If a `goAway` has a type of pushes, use the closure `kind` to distinguish it.
    ///
    /// - Parameters:
    ///   - ping: The type of pings, in both directions. Without `ping` and `heartbeat`, a link has no heartbeat.
    ///   - pong: The type of the answers to pings; the type of `ping` by default. If the types are the same and nothing
    ///     marks responses, a ping counts as the answer while the client waits for one. Other pings are then answered
    ///     at most once a second.
    ///   - heartbeat: A request that serves as a ping, for protocols without a ping. Choose one that costs the server
    ///     little, such as Modbus's diagnostics or a DNS query for the root. It is sent with the type, body and named
    ///     fields that it has here, and with one of the serials below `serials`, so `serials` must begin at 1 or above.
    ///     Every response with such a serial, including an error response, is the answer to a ping. A layout without
    ///     serials needs a kind field that lists `pong` instead. Cannot be combined with `ping`.
    ///   - push: The types, or the mark, of messages that the server sends without a request. By default, no frames;
    ///     with the role `response`, all frames that are not responses.
    ///   - cancel: The type of the frame that cancels the request with the same serial. By default, the client does not
    ///     tell the server that it has cancelled a request.
    ///   - response: The mark that responses have and all other frames do not have. By default, all frames without
    ///     another role are responses.
    ///   - part: The types, or the mark, of a part of a reply with more to come. By default, each reply is one frame.
    ///     Types also mark parts of requests (``Client/open(_:timeout:partTimeout:options:buffering:)``), except types
    ///     that are in `requests` or that `closing` has. A kind field that lists `part` marks both too.
    ///   - window: The type of the frame by which the client accepts more bytes of the reply to the request with the
    ///     same serial; see ``WindowedCodec/isWindowUpdate(_:)``.
    ///   - goAway: The types, or the mark, by which the server announces that it is about to close the link.
    ///   - retryAfter: The named field of a `goAway` frame that holds the retry delay.
    ///   - closing: The type of the final frame before an orderly close, such as SMPP's `unbind`. The frame is a
    ///     request with an empty body; its serial is 1 if `serials` begins above 1, and otherwise 0. The client does
    ///     not wait for an answer. See ``ClosingCodec/closingFrame()``.
    ///   - success: The status of a response that is not an error response; 0 by default.
    ///   - failure: The mark of an error response, in addition to its status. In a layout without a status field, the
    ///     number that the mark tests (`.bits`, `.field`) becomes the ``Frame/status`` of the error response.
    ///   - failureCode: Where an error response by `failure` holds its code, in a layout without a status field. With
    ///     `.body(UInt8.self)`, the first byte of the body becomes the ``Frame/status``, or 0 if there is no body. If
    ///     an error response is sent with a status and without a body, the status becomes its body.
    ///   - requests: The types of requests and their responses; all by default. Sending a frame with a type that is not
    ///     one of these and has no other role fails with `unknownType`. A received frame with such a type is malformed
    ///     (``Frame/malformedReason``), and only the request with its serial fails. In a layout without serials, such a
    ///     frame ends the link.
    ///   - serials: The serials of the client's requests, limited to those that fit in the serial field; `1...` by
    ///     default. Pings use the serials below this range, so leave some serials for them.
    ///   - responsesRepeat: The values of its request that a response, or a part of one, repeats: the type or named
    ///     numbers. A response that differs fails that request with `protocolViolation`, fate `unknown`, because it may
    ///     belong to another request. The request is cancelled, and its serial is quarantined. In a layout without
    ///     serials, the link ends, because later responses would go to the wrong requests too. A field that the request
    ///     does not set has the default of the link. If types mark parts, parts need not repeat the type. To compare
    ///     them, the client keeps each request until it is answered.
    ///   - kind: A closure that makes the final decision. Its argument is a frame that the client received, with the
    ///     kind that the other roles have set. It returns the frame's kind, or `nil` to reject the frame as malformed
    ///     (`unknownType`). Called on the event loop, so it must not block. It has no effect on sent frames. When you
    ///     send a frame, set the values that the closure reads yourself.
    ///   - file: The file that the failure message names. The default is the caller's.
    ///   - line: The line that the failure message names. The default is the caller's.
    /// - Returns: A layout with these roles. Its fields, its size limit, its push keys and its rules of
    ///   ``requiringBody(inResponsesTo:file:line:)`` stay the same.
    public func roles(
        ping: UInt32? = nil,
        pong: UInt32? = nil,
        heartbeat: Frame? = nil,
        push: Role? = nil,
        cancel: UInt32? = nil,
        response: Role? = nil,
        part: Role? = nil,
        window: UInt32? = nil,
        goAway: Role? = nil,
        retryAfter: RetryAfterField? = nil,
        closing: UInt32? = nil,
        success: UInt32? = nil,
        failure: Role? = nil,
        failureCode: FailureCode? = nil,
        requests: (some RangeExpression<UInt32>)? = ClosedRange<UInt32>?.none,
        serials: (some RangeExpression<SerialNumber>)? = ClosedRange<SerialNumber>?.none,
        responsesRepeat: [RepeatedField] = [],
        kind: (@Sendable (Frame) -> Frame.Kind?)? = nil,
        file: StaticString = #fileID,
        line: UInt = #line
    ) -> FrameLayout {
        LayoutError.stopping(file, line) { () throws(LayoutError) in
            try validatingRoles(
                ping: ping,
                pong: pong,
                heartbeat: heartbeat,
                push: push,
                cancel: cancel,
                response: response,
                part: part,
                window: window,
                goAway: goAway,
                retryAfter: retryAfter,
                closing: closing,
                success: success.map { $0...$0 },
                failure: failure,
                failureCode: failureCode,
                requests: requests,
                serials: serials,
                responsesRepeat: responsesRepeat,
                kind: kind
            )
        }
    }

    /// Returns a copy of this layout with these roles, where `success` is a range of statuses, such as `200...299`.
    ///
    /// The other parameters are those of the overload with a single status.
    public func roles(
        ping: UInt32? = nil,
        pong: UInt32? = nil,
        heartbeat: Frame? = nil,
        push: Role? = nil,
        cancel: UInt32? = nil,
        response: Role? = nil,
        part: Role? = nil,
        window: UInt32? = nil,
        goAway: Role? = nil,
        retryAfter: RetryAfterField? = nil,
        closing: UInt32? = nil,
        success: some RangeExpression<UInt32>,
        failure: Role? = nil,
        failureCode: FailureCode? = nil,
        requests: (some RangeExpression<UInt32>)? = ClosedRange<UInt32>?.none,
        serials: (some RangeExpression<SerialNumber>)? = ClosedRange<SerialNumber>?.none,
        responsesRepeat: [RepeatedField] = [],
        kind: (@Sendable (Frame) -> Frame.Kind?)? = nil,
        file: StaticString = #fileID,
        line: UInt = #line
    ) -> FrameLayout {
        LayoutError.stopping(file, line) { () throws(LayoutError) in
            try validatingRoles(
                ping: ping,
                pong: pong,
                heartbeat: heartbeat,
                push: push,
                cancel: cancel,
                response: response,
                part: part,
                window: window,
                goAway: goAway,
                retryAfter: retryAfter,
                closing: closing,
                success: success,
                failure: failure,
                failureCode: failureCode,
                requests: requests,
                serials: serials,
                responsesRepeat: responsesRepeat,
                kind: kind
            )
        }
    }

    /// Does what `roles` does, but throws for roles that do not fit.
    package func validatingRoles(
        ping: UInt32? = nil,
        pong: UInt32? = nil,
        heartbeat: Frame? = nil,
        push: Role? = nil,
        cancel: UInt32? = nil,
        response: Role? = nil,
        part: Role? = nil,
        window: UInt32? = nil,
        goAway: Role? = nil,
        retryAfter: RetryAfterField? = nil,
        closing: UInt32? = nil,
        success: (some RangeExpression<UInt32>)? = ClosedRange<UInt32>?.none,
        failure: Role? = nil,
        failureCode: FailureCode? = nil,
        requests: (some RangeExpression<UInt32>)? = ClosedRange<UInt32>?.none,
        serials: (some RangeExpression<SerialNumber>)? = ClosedRange<SerialNumber>?.none,
        responsesRepeat: [RepeatedField] = [],
        kind: (@Sendable (Frame) -> Frame.Kind?)? = nil
    ) throws(LayoutError) -> FrameLayout {
        var list = RoleList(
            ping: ping,
            pong: pong,
            heartbeat: heartbeat,
            cancel: cancel,
            push: push,
            response: response,
            part: part,
            window: window,
            goAway: goAway,
            retryAfter: retryAfter,
            closing: closing,
            success: success.map { numbers(of: $0) },
            failure: failure,
            failureCode: failureCode,
            requests: requests.map { numbers(of: $0) },
            serials: serials.map { numbers(of: $0) },
            repeated: responsesRepeat,
            kind: kind
        )
        list.bodies = declared.bodies
        var layout = self
        layout.roles = try Roles(list, request: request.shape, response: self.response.shape)
        layout.declared = list
        if heartbeat != nil { try layout.checkHeartbeat() }
        return layout
    }

    /// Checks that the heartbeat can be encoded.
    private func checkHeartbeat() throws(LayoutError) {
        guard var request = ping(number: 0) else { return }
        request.kind = .request
        var (client, output) = (seen(byServer: false), SendBuffer())
        do throws(FrameError) {
            try client.encode(request, into: &output)
        } catch {
            throw LayoutError(role: "heartbeat", "it cannot be sent: \(error.message)")
        }
    }

    /// Returns a copy of this layout in which a successful response to a request of one of `types` must have a body.
    ///
    /// A received response without a body is malformed (``Frame/malformedReason`` `missingBody`), so only its request
    /// fails. A test server cannot send such a response. Use this method if other frames may have an empty body;
    /// ``Field/body(sizes:)`` limits the bodies of all frames. Types that do not fit the layout stop the program.
    public func requiringBody(
        inResponsesTo types: some RangeExpression<UInt32>,
        file: StaticString = #fileID,
        line: UInt = #line
    ) -> FrameLayout {
        var layout = self
        layout.declared.bodies = numbers(of: types)
        layout.roles.bodies = LayoutError.stopping(file, line) { () throws(LayoutError) in
            try Roles.codes("bodies", layout.declared.bodies, in: [request.shape.type, response.shape.type])
        }
        layout.roles.hasMarks = true
        return layout
    }
}

// MARK: - Further roles

/// The named field in which a `goAway` frame holds the retry delay. 0 means no delay.
public enum RetryAfterField: Sendable, Hashable {
    /// The field holds seconds.
    case seconds(in: String)
    /// The field holds milliseconds.
    case milliseconds(in: String)

    var name: String {
        switch self {
        case .seconds(let name), .milliseconds(let name): name
        }
    }

    func duration(of number: UInt64) -> Duration? {
        guard number > 0 else { return nil }
        switch self {
        case .seconds: return .seconds(Int64(clamping: number))
        case .milliseconds: return .milliseconds(Int64(clamping: number))
        }
    }
}

/// The place of the error code in an error response, in a layout without a status field: see the role `failureCode`.
public struct FailureCode: Sendable, Hashable {
    let width: Int
    private let order: ByteOrder

    private init(width: Int, order: ByteOrder) { (self.width, self.order) = (width, order) }

    /// Returns the place at the beginning of the body. The code is an unsigned integer of 1, 2 or 4 bytes, such as
    /// `.body(UInt8.self)` in Modbus. Its bytes remain in the body.
    public static func body<Value: FixedWidthInteger & UnsignedInteger>(
        _ type: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> FailureCode {
        FailureCode(width: MemoryLayout<Value>.size, order: order)
    }

    /// Returns the code of the received `frame`, or `nil` if its body is too short.
    func code(in frame: borrowing Frame) -> UInt32? {
        frame.body.integer(at: 0, width: width, order: order).map { UInt32(truncatingIfNeeded: $0) }
    }

    /// Writes the status of an error response into its body, if the body is empty.
    ///
    /// Throws `malformed` for a status that does not fit and for one that differs from the body.
    func write(to frame: inout Frame) throws(FrameError) {
        guard frame.status != 0 else { return }
        if frame.body.isEmpty { frame.body.append(integer: UInt64(frame.status), width: width, order: order) }
        guard let code = code(in: frame), code == frame.status else {
            let found = code(in: frame).map { "holds \($0)" } ?? "is too short to hold it"
            throw FrameError(.malformed, "the error response has the status \(frame.status), but its body \(found)")
        }
    }
}

/// A value of a request that the response repeats: see the role `responsesRepeat`.
public enum RepeatedField: Sendable, Hashable {
    /// The type, without bits that mark a role.
    case type
    /// The number in this named field.
    case field(String)

    /// Checks that requests and responses have the field.
    func check(_ request: LayoutShape, _ response: LayoutShape) throws(LayoutError) {
        switch self {
        case .type:
            guard request.type != nil, response.type != nil else {
                throw LayoutError(role: "responsesRepeat", "the layout has no type field")
            }
        case .field(let name):
            for shape in [request, response] { try shape.integer(name, of: "responsesRepeat") }
        }
    }
}
