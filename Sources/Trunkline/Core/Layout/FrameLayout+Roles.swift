extension FrameLayout {
    /// The same layout with these roles, in place of any it had. Roles that do not fit stop the program.
    ///
    /// No type can have two of the roles `ping`, `pong`, `cancel`, `window`, `closing`, `goAway` and `push`, but `closing` that
    /// of the goAway: give the closure `kind` a say where one of them lies amid the pushes. `requests` may have them in its
    /// midst but not at its ends, and may share types with `push` and `goAway` where something marks a response. Frames that
    /// are made for sending get the marks of what they are, so `frame.type` is the same in a request and in what belongs to it.
    ///
    /// ```swift
    /// smpp.roles(ping: 0x15, response: .bit(31), goAway: 0x06)
    /// modbus.roles(heartbeat: Frame(.request, type: 8, body: [0, 0, 0, 0]), failure: .bit(7), serials: 16...)
    /// acme.roles(push: .field("flow", 2), part: .bit(0, of: "flags"), success: 200, requests: 3...99)
    /// ```
    ///
    /// - Parameters:
    ///   - ping: The type of heartbeats, in both directions.
    ///   - pong: The type of their answers; that of `ping` unless given. Where the two are the same and nothing else
    ///     marks a response, a heartbeat is taken for the answer when one of ours waits for it, and others are answered
    ///     once a second at most.
    ///   - heartbeat: A request that serves as a ping, for protocols without a type for one: a request that costs the
    ///     server little, such as Modbus's diagnostics or DNS's query for the root. It goes out with the type, the body and
    ///     the named fields that it has here and with one of the serials below `serials`, which must leave some. Every
    ///     response with such a serial is the answer, also an error response. A layout without serials needs a kind
    ///     field that lists `pong`. Not together with `ping`.
    ///   - push: The types, or the mark, of what the server sends on its own account.
    ///   - cancel: The type that cancels the request with the same serial.
    ///   - response: The mark that a response has and everything else has not. Without the role `push`, all else that the
    ///     server sends are pushes.
    ///   - part: The types, or the mark, of a part of a response with more to come. Types tell parts of requests as well
    ///     (`Client.open`), as long as no role is told by anything but types.
    ///   - window: The type of a frame by which the client takes more bytes of the reply to the request with the same
    ///     serial: see `WindowedCodec.isWindowUpdate(_:)`.
    ///   - goAway: The types, or the mark, by which the server says that it is about to go.
    ///   - retryAfter: The named field in which such a frame says for how long.
    ///   - closing: The type of the last frame of a link that the client ends in good order, by which it takes leave
    ///     (SMPP's unbind); its body is empty, and its serial is one of those below the requests' serials, 0 where there are
    ///     none but that. It is a request, whose answer is not waited for. See `ClosingCodec.closingFrame()`.
    ///   - success: The status, or a range of them, of a response that is not an error response; 0 unless given.
    ///   - failure: The mark of a response that is an error response, besides its status. In a layout without a status
    ///     field, the number that the mark looks at (`.bits`, `.field`) is the error response's `status`.
    ///   - failureCode: Where an error response by `failure` says why, in a layout without a status field:
    ///     `.body(UInt8.self)` makes the first byte of its body the error response's `status`, 0 if there is none. An
    ///     error response that is sent with a status and without a body gets it as its body.
    ///   - requests: The types that requests and their responses have. Others that no role explains are refused as
    ///     `unknownType`: to send one is an error, and one received is malformed (`Frame.malformedReason`), which costs
    ///     that frame alone, and the link only where responses match in order. Unless given, every type will do.
    ///   - serials: The serials for the client's requests, as many as the serial field holds; `1...` unless given.
    ///   - responsesRepeat: What a response, or a part of one, repeats of its request: the type, named numbers. One that
    ///     does not is a protocol violation. With serials it fails that request alone (`protocolViolation`, fate
    ///     `unknown`, since the response may be another request's): the request is cancelled, its serial quarantined, and
    ///     the link stays. In order it ends the link, on which every later response would go to the wrong request. A
    ///     request that does not set a field has the link's default in it. Where types tell parts, those need not
    ///     repeat the type. The client keeps each request until it is answered to compare them.
    ///   - kind: Looks at a frame that the client received, whose `kind` is what the other roles say, and returns its
    ///     kind; `nil` refuses it, as a type that is none of `requests`. What it looks at is for the sender to set.
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

    /// The same layout with these roles, where each status of a range is that of a response that is not an error response.
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

    /// Checks that the heartbeat can be sent, and that no role takes its answer for something else.
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

    /// The same layout, which refuses a successful response to a request of one of `types` as `missingBody` when it has
    /// no body: one received is malformed (`Frame.malformedReason`), which costs its request alone. For layouts whose
    /// bodies may otherwise be empty. Types that do not fit stop the program.
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

// MARK: - What roles say beside numbers and marks

/// The named field in which a `goAway` frame says how long to stay away; 0 there says nothing.
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

/// Where an error response says why the server refused, in a layout without a status field: see the role `failureCode`.
public struct FailureCode: Sendable, Hashable {
    let width: Int
    private let order: ByteOrder

    private init(width: Int, order: ByteOrder) { (self.width, self.order) = (width, order) }

    /// The first bytes of the body, an unsigned integer of 1, 2 or 4 bytes: `.body(UInt8.self)` in Modbus. They remain in
    /// the body.
    public static func body<Value: FixedWidthInteger & UnsignedInteger>(
        _ type: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> FailureCode {
        FailureCode(width: MemoryLayout<Value>.size, order: order)
    }

    /// The code of the received `frame`; `nil` where its body is too short.
    func code(in frame: borrowing Frame) -> UInt32? {
        frame.body.integer(at: 0, width: width, order: order).map { UInt32(truncatingIfNeeded: $0) }
    }

    /// Writes the status of an error response to be sent into its body, if that is empty.
    ///
    /// Throws `malformed` for a status that does not fit, and for one that is not what the body says.
    func write(to frame: inout Frame) throws(FrameError) {
        guard frame.status != 0 else { return }
        if frame.body.isEmpty { frame.body.append(integer: UInt64(frame.status), width: width, order: order) }
        guard let code = code(in: frame), code == frame.status else {
            let found = code(in: frame).map { "says \($0)" } ?? "is too short to say it"
            throw FrameError(.malformed, "the error response has the status \(frame.status), but its body \(found)")
        }
    }
}

/// What a response repeats of its request: see the role `responsesRepeat`.
public enum RepeatedField: Sendable, Hashable {
    /// The type, without bits that mark a role.
    case type
    /// The number in this named field.
    case field(String)

    /// Checks that requests and responses have it.
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
