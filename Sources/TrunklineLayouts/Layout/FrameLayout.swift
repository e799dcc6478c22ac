public import TrunklineCore

/// A codec that is declared field by field, as a byte table of the protocol.
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
/// .roles {
///     $0.ping = 0
///     $0.push = 1
///     $0.cancel = 2
///     $0.serials = 50...
/// }
/// ```
///
/// The fields say where the bytes are; the *roles* say what the numbers in them mean. Without a serial field, responses
/// are matched in order. A layout is the client side of the protocol; a test server uses ``serverSide()``. See
/// <doc:DescribingYourProtocol>, and <doc:FormatReference> for the presets.
public struct FrameLayout: Sendable {
    /// An object, because a client keeps several copies of its codec; each would take 700 bytes.
    private var object: Object

    private final class Object: Sendable {
        let content: Content

        init(_ content: Content) { self.content = content }
    }

    private struct Content {
        var inbound: LayoutPlan
        var outbound: LayoutPlan
        var roles: CheckedRoles
        var declared = Roles()
        var isServerSide = false
        var pushKey: (@Sendable (Frame) -> PushKey?)?
        var refusal: (@Sendable (Frame, ServingRefusal) -> Frame?)?
        var reading: FrameReading.Rule?
        var names: [UInt32: String] = [:]
        var maximumFrameSize: Int
    }

    private var content: Content { object.content }

    private mutating func change(_ change: (inout Content) -> Void) {
        var content = content
        change(&content)
        object = Object(content)
    }

    var inbound: LayoutPlan {
        get { content.inbound }
        set { change { $0.inbound = newValue } }
    }

    var outbound: LayoutPlan {
        get { content.outbound }
        set { change { $0.outbound = newValue } }
    }

    var roles: CheckedRoles {
        get { content.roles }
        set { change { $0.roles = newValue } }
    }

    var declared: Roles {
        get { content.declared }
        set { change { $0.declared = newValue } }
    }

    var isServerSide: Bool { content.isServerSide }

    /// The largest whole frame in bytes, header and trailer included; 16 MiB by default.
    ///
    /// The limit applies in both directions. A longer frame fails with `illegalLength`; a received frame fails as soon
    /// as its length has arrived. A limit below the smallest frame of the layout counts as the size of that frame.
    ///
    /// If the limit is above ``ClientOptions/Inbound-swift.struct/maximumUndecoded`` (256 MiB by default), raise that
    /// option too. Otherwise, the client ends the link before such a frame is complete.
    public var maximumFrameSize: Int {
        get { content.maximumFrameSize }
        set {
            let least = max(inbound.shape.smallestFrame, outbound.shape.smallestFrame)
            change { $0.maximumFrameSize = max(least, newValue) }
            applyLimit()
        }
    }

    /// Creates a layout of `fields` in this order. Invalid fields stop the program with a message that names the field;
    /// see ``init(validating:response:)``.
    public init(@LayoutBuilder _ fields: () -> [Field], file: StaticString = #fileID, line: UInt = #line) {
        self = LayoutError.stopping(file, line) { () throws(LayoutError) in try FrameLayout(validating: fields()) }
    }

    /// Creates a layout in which frames to the server have the fields of `request`, and frames from the server,
    /// including pings and pushes, those of `response`. Invalid fields stop the program with a message that names the
    /// field; see ``init(validating:response:)``.
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

    /// Creates a layout of fields that are only known at run time.
    ///
    /// - Parameters:
    ///   - fields: The fields in order. If `response` is given, those of frames to the server.
    ///   - response: The fields of frames from the server, or `nil` if they are the same.
    /// - Throws: ``LayoutError`` for invalid fields. It names the field (`field 3, length (4 bytes)`); if there are two
    ///   lists, also the list (`request field 3, …`).
    public init(validating fields: [Field], response: [Field]? = nil) throws(LayoutError) {
        guard let response else {
            try self.init(request: LayoutShape(fields, for: .request), response: LayoutShape(fields, for: .response))
            return
        }
        let requestShape = try LayoutShape(fields, for: .request, of: "request ")
        let responseShape = try LayoutShape(response, for: .response, of: "response ")
        if (requestShape.serial == nil) != (responseShape.serial == nil) {
            let lacking = requestShape.serial == nil ? "request" : "response"
            throw LayoutError("\(lacking) serial", "the other direction has a serial field, so this one needs it too")
        }
        if requestShape.highSerial?.width != responseShape.highSerial?.width {
            throw LayoutError("response serial", "the serial fields of both directions must have the same width")
        }
        try self.init(request: requestShape, response: responseShape)
    }

    private init(request: LayoutShape, response: LayoutShape) throws(LayoutError) {
        let maximumFrameSize = 16 * 1024 * 1024
        let content = Content(
            inbound: LayoutPlan(response, maximumFrameSize: maximumFrameSize),
            outbound: LayoutPlan(request, maximumFrameSize: maximumFrameSize),
            roles: try CheckedRoles(Roles(), request: request, response: response),
            maximumFrameSize: maximumFrameSize
        )
        object = Object(content)
    }

    private mutating func applyLimit() {
        inbound = LayoutPlan(inbound.shape, maximumFrameSize: maximumFrameSize)
        outbound = LayoutPlan(outbound.shape, maximumFrameSize: maximumFrameSize)
    }

    package func size(ofField name: String) -> Int? {
        outbound.shape.named.first { $0.name == name && $0.isBytes }?.slot.width
    }

    var request: LayoutPlan { isServerSide ? inbound : outbound }
    var response: LayoutPlan { isServerSide ? outbound : inbound }

    func seen(byServer: Bool) -> FrameLayout {
        if isServerSide == byServer { return self }
        var layout = self
        layout.change { content in
            swap(&content.inbound, &content.outbound)
            content.isServerSide = byServer
        }
        return layout
    }

    /// Returns a copy of this layout in which a named header field of a push is its key, for
    /// ``RequestSender/pushes(forKey:buffering:)``.
    ///
    /// The key is a number for ``Field/integer(_:_:default:order:)`` and a name for ``Field/bytes(_:_:default:)``. It
    /// replaces an earlier key. A field that responses do not have stops the program.
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

    /// Returns a copy of this layout in which `key` returns the key of a push, for keys in the body or in several
    /// fields. It replaces an earlier key. For the rules that `key` must follow, see ``PushKeyCodec/pushKey(of:)``.
    public func keyingPushes(by key: @escaping @Sendable (Frame) -> PushKey?) -> FrameLayout {
        var layout = self
        layout.change { $0.pushKey = key }
        return layout
    }

    /// Returns the key that `keyingPushes(by:)` declares, or `nil` if it was not called.
    public func pushKey(of push: Frame) -> PushKey? { content.pushKey?(push) }

    /// Returns a copy of this layout in which `rule` completes received frames, after the roles. It replaces an earlier
    /// rule.
    ///
    /// `rule` is called for every frame that the client receives, except malformed ones. It sets what no role can:
    /// ``Frame/reason``, ``Frame/answers``, ``Frame/isFateUnknown``, ``Frame/markLinkEnding(_:)``. It may also change
    /// the kind. It is called on the event loop, so it must not block.
    ///
    /// ```swift
    /// layout.reading { frame in
    ///     if frame.isErrorResponse { frame.reason = ServerReason(code: Int(frame.status), text: String(frame.body)) }
    /// }
    /// ```
    public func reading(_ rule: @escaping @Sendable (inout Frame) -> Void) -> FrameLayout {
        var layout = self
        layout.change { $0.reading = rule }
        layout.roles.hasMarks = true
        return layout
    }

    var hasReading: Bool { content.reading != nil }

    func complete(_ frame: inout Frame) {
        if !isServerSide, frame.malformedReason == nil { content.reading?(&frame) }
    }

    /// Returns a copy of this layout in which `refusal` returns the response to a request of the server that the client
    /// does not serve. It replaces an earlier one.
    ///
    /// ```swift
    /// layout.refusingRequests { request, reason in
    ///     reason == .cancelled ? nil : Frame(.response, type: request.type, status: 503)
    /// }
    /// ```
    ///
    /// For the rules that `refusal` must follow, see ``ServingCodec/refusal(of:because:)``.
    public func refusingRequests(
        by refusal: @escaping @Sendable (_ request: Frame, _ reason: ServingRefusal) -> Frame?
    ) -> FrameLayout {
        var layout = self
        layout.change { $0.refusal = refusal }
        return layout
    }

    /// Returns the response that ``refusingRequests(by:)`` declares, or `nil` if it was not called.
    public func refusal(of request: Frame, because reason: ServingRefusal) -> Frame? {
        content.refusal?(request, reason)
    }
}

extension FrameLayout {
    /// Returns a copy of this layout with names for the type numbers of requests, which the log, errors, timelines,
    /// recordings, metrics (``ClientOptions/Requests/measuresByName``) and Wireshark dissectors show. Names of the same
    /// types are replaced.
    ///
    /// ```swift
    /// let layout = FrameLayout.standard.namingRequests([0x410: "GetUser", 0x411: "SetUser"])
    /// ```
    public func namingRequests(_ names: [UInt32: String]) -> FrameLayout {
        var layout = self
        layout.change { $0.names.merge(names) { $1 } }
        return layout
    }

    /// Returns the name that ``namingRequests(_:)`` declares for the type of `request`, or `nil` if it has none.
    public func name(of request: Frame) -> String? { content.names[request.type] }

    var requestNames: [UInt32: String] { content.names }

    /// `false`: the type number alone decides.
    public var namesEachRequest: Bool { false }
}

extension FrameLayout: FrameCodec, NamingCodec, CancellingCodec, WindowedCodec, ResponseCheckingCodec, ServingCodec,
    PushKeyCodec, HeartbeatCodec, ClosingCodec, GoAwayCodec, FieldDefaultsCodec, ServerSideCodec, SerialNumberingCodec
{
    /// By serial if the layout has a serial field, otherwise in order.
    public var matching: ResponseMatching { inbound.shape.serial == nil ? .inOrder : .serial(roles.serials) }

    /// Returns a frame of the role `cancel`, or of type 0 if only the kind field lists cancellations. Returns `nil` if
    /// the layout has neither, or no serial field.
    public func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
        guard outbound.shape.serial != nil else { return nil }
        if let cancel = roles.cancel { return Frame(.cancel, type: cancel, serial: serial) }
        return outbound.shape.kind?.lists(.cancel) == true ? Frame(.cancel, serial: serial) : nil
    }

    /// Returns whether `frame` has the type of the role `window`.
    public func isWindowUpdate(_ frame: Frame) -> Bool { frame.type == roles.window }

    /// Returns a frame of the role `ping` or `heartbeat`, or `nil` if the layout has neither.
    ///
    /// Successive pings cycle through the serials below the range of requests, except 0, so that a late answer can be
    /// matched with its ping. If only 0 is below the range, or the layout has no serial field, the serial is 0.
    public func ping(number: UInt64) -> Frame? {
        if var ping = declared.heartbeat {
            // A client would treat it as an ordinary request, unless its kind says otherwise.
            if isServerSide, outbound.shape.kind?.lists(.ping) != true { return nil }
            (ping.kind, ping.serial) = (.ping, reservedSerial(number))
            return ping
        }
        guard let type = roles.ping else { return nil }
        return Frame(.ping, type: type, serial: reservedSerial(number))
    }

    /// Returns a request of the role `closing` with an empty body, or `nil` if the layout has no such role.
    public func closingFrame() -> Frame? {
        guard !isServerSide, let type = roles.closing else { return nil }
        return Frame(.request, type: type, serial: reservedSerial(0))
    }

    /// Successive numbers cycle through the serials below those of requests, except 0.
    private func reservedSerial(_ number: UInt64) -> SerialNumber {
        let reserved = outbound.shape.serial == nil ? 0 : roles.serials.lowerBound
        return reserved > 1 ? 1 + number % (reserved - 1) : 0
    }

    /// Returns the answer to `ping`, with the serial of the ping: a frame of the role `pong`, or of the role `ping` if
    /// the layout has no separate role `pong`. The answer to a `heartbeat` also has the type and body of the ping.
    /// Returns `nil` if the layout has none of these roles.
    public func pong(answering ping: Frame) -> Frame? {
        if declared.heartbeat != nil { return Frame(.pong, type: ping.type, serial: ping.serial, body: ping.body) }
        return (roles.pong ?? roles.ping).map { Frame(.pong, type: $0, serial: ping.serial) }
    }

    /// `true` unless the layout has a role `pong` or `heartbeat`, or marks responses.
    public var pongsLookLikePings: Bool {
        roles.pong == nil && declared.response == nil && declared.heartbeat == nil && inbound.shape.kind == nil
    }

    /// Returns the delay in the field of the role `retryAfter`, or `nil` if the layout has no such role or the field is
    /// 0.
    public func retryAfter(in goAway: Frame) -> Duration? {
        guard let hint = declared.retryAfter, let number = goAway[hint.name] else { return nil }
        return hint.duration(of: number)
    }

    /// Returns the server side of the same layout. It decodes requests and encodes responses and pushes.
    public func serverSide() -> any FrameCodec { seen(byServer: true) }

    /// Sets the values of named fields for all later frames that do not set these fields themselves.
    ///
    /// - Parameter frame: A frame with the values.
    /// - Throws: `malformed` for a field that frames of this direction do not have, and for a value that does not fit.
    public mutating func setDefaults(from frame: Frame) throws(FrameError) {
        try checkFields(of: frame)
        // `checkFields` accepts a content type that the layout does not have; as a default it would have no effect.
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
            // The new template holds the values, so encoding takes no longer.
            let shape = try LayoutShape(fields, for: outbound.shape.direction)
            outbound = LayoutPlan(shape, maximumFrameSize: maximumFrameSize)
        } catch {
            throw FrameError(.malformed, error.description)
        }
    }

    /// Whether the layout has the role `usesRandomSerials`.
    public var usesRandomSerials: Bool { declared.usesRandomSerials }

    /// The width of the serial field in bits, but at least 64.
    public var serialBits: Int { 64 + 8 * (inbound.shape.highSerial?.width ?? 0) }

    /// Whether the layout has the role `responsesRepeat`.
    public var checksResponses: Bool { !declared.responsesRepeat.isEmpty }

    package func repeatFields(of request: borrowing Frame, in response: inout Frame) {
        for case .field(let name) in declared.responsesRepeat where response[name] == nil {
            response[name] = request[name]
        }
    }

    /// Checks that a response repeats the values of its request that the role `responsesRepeat` names.
    ///
    /// - Throws: `responseMismatch` if it does not.
    public func check(_ response: Frame, against request: Frame) throws(FrameError) {
        for field in declared.responsesRepeat {
            let (name, expected, found): (String, UInt64, UInt64)
            switch field {
            case .type:
                // A type that marks a part, of a response or a request, carries no other information.
                let hasPart = response.kind == .part || request.kind == .part
                if hasPart, roles.part != nil { continue }
                (name, expected, found) = ("type", UInt64(request.type), UInt64(response.type))
            case .field(let field):
                let initial = self.request.shape.named.first { $0.name == field }?.initial ?? 0
                (name, expected, found) = ("field \"\(field)\"", request[field] ?? initial, response[field] ?? 0)
            }
            if expected != found {
                let message = "\(name) \(hexadecimal(found)), but its request has \(hexadecimal(expected))"
                throw FrameError(.responseMismatch, "the response has the \(message)")
            }
        }
    }
}

extension FrameLayout: CustomReflectable {
    /// Empty: the default of a byte field may be a token. ``byteTable`` describes the layout.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension FrameLayout: FrameLimitCodec {
    /// Sets ``maximumFrameSize``.
    public mutating func setMaximumFrameSize(_ size: Int) { maximumFrameSize = size }
}
