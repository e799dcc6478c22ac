/// A wire format that is declared, field by field, and thereby a codec.
///
/// ```swift
/// let acme = FrameLayout {
///     Field.constant([0xCA, 0xFE])
///     Field.type(UInt16.self)
///     Field.serial(UInt32.self)
///     Field.length(UInt32.self, counting: .body)
///     Field.body
///     Field.checksum(.adler32, over: .body)
/// }
/// let codec = acme.roles(ping: 0, push: 1, cancel: 2, serials: 50...)
/// ```
///
/// Where requests and responses differ, a layout has both: `FrameLayout(request: { … }, response: { … })`.
///
/// A layout sees the protocol as a client does: it decodes responses and pushes. A test server uses `serverSide()`.
/// Without a serial field, responses match requests in order.
public struct FrameLayout: Sendable {
    /// The plan of the frames to decode, and of those to encode.
    var inbound: LayoutPlan
    var outbound: LayoutPlan
    var roles: Roles
    /// The roles as they were declared: what they have besides numbers.
    var declared = RoleList()
    var isServerSide = false
    /// What a push is about; `nil` where the user has not said it.
    private var pushKey: (@Sendable (Frame) -> PushKey?)?

    /// The largest whole frame in bytes, header and trailer included; 16 MiB unless set.
    ///
    /// Holds both ways: a longer frame is refused as `illegalLength`, when received as soon as its length is there.
    /// Not less than a frame without a body has. Above `ClientOptions.Inbound.maximumUndecoded` (256 MiB), raise that too:
    /// a client ends a link on which more than that is no complete frame.
    public var maximumFrameSize = 16 * 1024 * 1024 {
        didSet { applyLimit() }
    }

    /// A layout of `fields` in this order. Fields that do not make a layout stop the program, with a message that names
    /// the field; see `init(validating:response:)`.
    public init(@LayoutBuilder _ fields: () -> [Field], file: StaticString = #fileID, line: UInt = #line) {
        self = LayoutError.stopping(file, line) { () throws(LayoutError) in try FrameLayout(validating: fields()) }
    }

    /// A layout in which frames to the server have the fields of `request` and frames from it those of `response`, pings
    /// and pushes included. Fields that do not make a layout stop the program; see `init(validating:response:)`.
    public init(
        @LayoutBuilder request: () -> [Field],
        @LayoutBuilder response: () -> [Field],
        file: StaticString = #fileID,
        line: UInt = #line
    ) {
        self = LayoutError.stopping(file, line) { () throws(LayoutError) in
            try FrameLayout(validating: request(), response: response())
        }
    }

    /// A layout of `fields` in this order, for fields that are not known when the program is written. Where there is a
    /// `response`, frames from the server have its fields, and frames to it those of `fields`.
    ///
    /// Throws `LayoutError`, which names the field, for fields that do not make a layout. Of two lists, it says in which the
    /// field is: `request field 3, length (4 bytes)`.
    public init(validating fields: [Field], response: [Field]? = nil) throws(LayoutError) {
        guard let response else {
            try self.init(request: LayoutShape(fields, for: .request), response: LayoutShape(fields, for: .response))
            return
        }
        let requestShape = try LayoutShape(fields, for: .request, of: "request ")
        let responseShape = try LayoutShape(response, for: .response, of: "response ")
        if (requestShape.serial == nil) != (responseShape.serial == nil) {
            let lacking = requestShape.serial == nil ? "request" : "response"
            throw LayoutError("\(lacking) serial", "the other layout has one, so this needs it too")
        }
        try self.init(request: requestShape, response: responseShape)
    }

    private init(request: LayoutShape, response: LayoutShape) throws(LayoutError) {
        outbound = LayoutPlan(request, maximumFrameSize: maximumFrameSize)
        inbound = LayoutPlan(response, maximumFrameSize: maximumFrameSize)
        roles = try Roles(RoleList(), request: request, response: response)
    }

    private mutating func applyLimit() {
        let least = max(inbound.shape.smallestFrame, outbound.shape.smallestFrame)
        guard maximumFrameSize >= least else {
            fatalError("FrameLayout: maximumFrameSize \(maximumFrameSize) is below the smallest frame's \(least) bytes")
        }
        inbound = LayoutPlan(inbound.shape, maximumFrameSize: maximumFrameSize)
        outbound = LayoutPlan(outbound.shape, maximumFrameSize: maximumFrameSize)
    }

    /// The plans of the two kinds of frames, whichever of them this side sends.
    var request: LayoutPlan { isServerSide ? inbound : outbound }
    var response: LayoutPlan { isServerSide ? outbound : inbound }

    /// The layout as the client, or the server, sees it.
    func seen(byServer: Bool) -> FrameLayout {
        if isServerSide == byServer { return self }
        var layout = self
        swap(&layout.inbound, &layout.outbound)
        layout.isServerSide = byServer
        return layout
    }

    // MARK: Keys of pushes

    /// The same layout, in which the named header field of a push is its key (`PushKeyCodec.pushKey(of:)`): a number for
    /// `Field.integer`, a name for `Field.bytes`. Replaces any other key. A field that responses do not have stops the
    /// program.
    public func keyingPushes(by field: String, file: StaticString = #fileID, line: UInt = #line) -> FrameLayout {
        LayoutError.stopping(file, line) { () throws(LayoutError) in
            guard response.shape.named.contains(where: { $0.name == field }) else {
                throw LayoutError("push key", "the \(response.shape.direction) layout has no field \"\(field)\"")
            }
        }
        return keyingPushes { push in
            if let number = push[field] { .number(number) } else { push[bytes: field].map { .name($0) } }
        }
    }

    /// The same layout, in which `key` says what a push is about (`PushKeyCodec.pushKey(of:)`): for keys in the body, or
    /// in several fields. Replaces any other key.
    public func keyingPushes(by key: @escaping @Sendable (Frame) -> PushKey?) -> FrameLayout {
        with(\.pushKey, key)
    }

    /// What `keyingPushes(by:)` says; `nil` without it.
    public func pushKey(of push: Frame) -> PushKey? { pushKey?(push) }
}

// MARK: - What a client asks its codec

extension FrameLayout: FrameCodec, CancellingCodec, WindowedCodec, ResponseCheckingCodec, PushKeyCodec, HeartbeatCodec,
    ClosingCodec, GoAwayCodec, FieldDefaultsCodec, ServerSideCodec
{
    /// By serial where the layout has a serial field, otherwise in order.
    public var matching: ResponseMatching { inbound.shape.serial == nil ? .inOrder : .serial(roles.serials) }

    /// A frame of the role `cancel`; `nil` when the layout has no such role or no serial field.
    public func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
        guard let cancel = roles.cancel, outbound.shape.serial != nil else { return nil }
        return Frame(.cancel, type: cancel, serial: serial)
    }

    /// Whether `frame` has the type of the role `window`.
    public func isWindowUpdate(_ frame: Frame) -> Bool { frame.type == roles.window }

    /// A frame of the role `ping` or `heartbeat`; `nil` when the layout has neither.
    ///
    /// Its serial is one of those below the requests' serials, in turn, so that late answers can be told apart; 0 where
    /// there are none but that.
    public func ping(number: UInt64) -> Frame? {
        if var ping = declared.heartbeat {
            // Of a server, clients would take it for a request unless its kind says otherwise.
            if isServerSide, outbound.shape.kind?.lists(.ping) != true { return nil }
            (ping.kind, ping.serial) = (.ping, reservedSerial(number))
            return ping
        }
        guard let type = roles.ping else { return nil }
        return Frame(.ping, type: type, serial: reservedSerial(number))
    }

    /// A request of the role `closing`, without a body; `nil` when the layout has no such role.
    public func closingFrame() -> Frame? {
        guard !isServerSide, let type = roles.closing else { return nil }
        return Frame(.request, type: type, serial: reservedSerial(0))
    }

    /// One of the serials that no request has, in turn, but for 0.
    private func reservedSerial(_ number: UInt64) -> SerialNumber {
        let reserved = outbound.shape.serial == nil ? 0 : roles.serials.lowerBound
        return reserved > 1 ? 1 + number % (reserved - 1) : 0
    }

    /// A frame of the role `pong`, or `ping` when that has no type of its own, with the serial of `ping`; `nil` when the
    /// layout has no role `ping`. The answer to a `heartbeat` has its type and body.
    public func pong(answering ping: Frame) -> Frame? {
        if declared.heartbeat != nil { return Frame(.pong, type: ping.type, serial: ping.serial, body: ping.body) }
        return (roles.pong ?? roles.ping).map { Frame(.pong, type: $0, serial: ping.serial) }
    }

    /// True unless the layout has a role `pong` or `heartbeat`, or marks what is a response.
    public var pongsLookLikePings: Bool {
        roles.pong == nil && declared.response == nil && declared.heartbeat == nil && inbound.shape.kind == nil
    }

    /// What the field of the role `retryAfter` says; `nil` when the layout has no such role or the field is 0.
    public func retryAfter(in goAway: Frame) -> Duration? {
        guard let hint = declared.retryAfter, let number = goAway[hint.name] else { return nil }
        return hint.duration(of: number)
    }

    /// The same layout as the server sees it: decodes requests and encodes responses.
    public func serverSide() -> any FrameCodec { seen(byServer: true) }

    /// From now on, frames that are encoded hold the named fields that `frame` has, unless they set these themselves.
    ///
    /// Throws `malformed` for a field that the layout of these frames does not declare, and for a value that does not fit.
    public mutating func setDefaults(from frame: Frame) throws(FrameError) {
        try checkFields(of: frame)
        // Requests may say it of their bodies wherever they go; here it would have no effect.
        if let name = frame.fieldNames.first(where: { name in !outbound.shape.named.contains { $0.name == name } }) {
            throw FrameError(.malformed, "the layout has no field \"\(name)\"")
        }
        let fields = outbound.shape.fields.map { field in
            switch field.content {
            case .integer(let name, let initial):
                Field(.integer(name: name, default: frame[name] ?? initial), width: field.width, order: field.order)
            case .bytes(let name, let initial):
                Field(.bytes(name: name, default: frame[bytes: name].map(Array.init) ?? initial), width: field.width)
            default: field
            }
        }
        do throws(LayoutError) {
            // A plan of its own, with the values in its template: no frame takes longer for them.
            let shape = try LayoutShape(fields, for: outbound.shape.direction)
            outbound = LayoutPlan(shape, maximumFrameSize: maximumFrameSize)
        } catch {
            throw FrameError(.malformed, error.description)
        }
    }

    /// Whether the layout has the role `responsesRepeat`.
    public var checksResponses: Bool { !declared.repeated.isEmpty }

    /// Sets in `response` the fields of `request` that the role `responsesRepeat` names, unless they are set.
    package func repeatFields(of request: borrowing Frame, in response: inout Frame) {
        for case .field(let name) in declared.repeated where response[name] == nil { response[name] = request[name] }
    }

    /// Throws `responseMismatch` for a response that does not repeat what the role `responsesRepeat` says.
    public func check(_ response: Frame, against request: Frame) throws(FrameError) {
        for field in declared.repeated {
            let (name, expected, found): (String, UInt64, UInt64)
            switch field {
            case .type:
                // Types that tell parts, of responses and of requests, say no more than that.
                let hasPart = response.kind == .part || request.kind == .part
                if hasPart, roles.part != nil { continue }
                (name, expected, found) = ("type", UInt64(request.type), UInt64(response.type))
            case .field(let field):
                let initial = self.request.shape.named.first { $0.name == field }?.initial ?? 0
                (name, expected, found) = ("field \"\(field)\"", request[field] ?? initial, response[field] ?? 0)
            }
            if expected != found {
                let message = "\(name) \(hexadecimal(found)), its request \(hexadecimal(expected))"
                throw FrameError(.responseMismatch, "the response has the \(message)")
            }
        }
    }
}
