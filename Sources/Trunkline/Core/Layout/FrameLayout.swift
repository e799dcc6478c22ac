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
    var inboundLimits: LayoutPlan.Limits
    var outboundLimits: LayoutPlan.Limits
    var roles: Roles
    /// What else tells frames apart; `nil` where the numbers of `roles` are all there is.
    var marks: RoleMarks?
    var isServerSide = false
    /// What a push is about; `nil` where the user has not said it.
    var pushKey: (@Sendable (Frame) -> PushKey?)?

    /// The largest whole frame in bytes, header and trailer included; 16 MiB unless set.
    ///
    /// Holds both ways: a longer frame is refused as `illegalLength`, when received as soon as its length is there.
    /// Not less than a frame without a body has. Above `ClientOptions.Inbound.maximumUndecoded` (256 MiB), raise that too:
    /// a client ends a link on which more than that is no complete frame.
    public var maximumFrameSize = 16 * 1024 * 1024 {
        didSet { applyLimit() }
    }

    /// A layout of `fields` in this order. Fields that do not make a layout stop the program, with a message that names
    /// the field; see `init(validating:)`.
    public init(
        @LayoutBuilder _ fields: () -> [Field],
        file: StaticString = #fileID,
        line: UInt = #line
    ) {
        self = LayoutError.stopping(file, line) { () throws(LayoutError) in try FrameLayout(validating: fields()) }
    }

    /// A layout in which frames to the server have the fields of `request` and frames from it those of `response`, pings
    /// and pushes included. Fields that do not make a layout stop the program; see `init(validatingRequest:response:)`.
    public init(
        @LayoutBuilder request: () -> [Field],
        @LayoutBuilder response: () -> [Field],
        file: StaticString = #fileID,
        line: UInt = #line
    ) {
        self = LayoutError.stopping(file, line) { () throws(LayoutError) in
            try FrameLayout(validatingRequest: request(), response: response())
        }
    }

    /// A layout of `fields` in this order, for fields that are not known when the program is written.
    ///
    /// Throws `LayoutError`, which names the field, for fields that do not make a layout.
    public init(validating fields: [Field]) throws(LayoutError) {
        try self.init(
            request: LayoutPlan(LayoutDraft(fields, for: .request)),
            response: LayoutPlan(LayoutDraft(fields, for: .response))
        )
    }

    /// A layout in which frames to the server have the fields of `request` and frames from it those of `response`, for
    /// fields that are not known when the program is written.
    ///
    /// Throws `LayoutError`, which says in which of the two the field is, as in `request field 3, length (4 bytes)`.
    public init(validatingRequest request: [Field], response: [Field]) throws(LayoutError) {
        let requestPlan = try LayoutError.within("request") { () throws(LayoutError) in
            LayoutPlan(try LayoutDraft(request, for: .request))
        }
        let responsePlan = try LayoutError.within("response") { () throws(LayoutError) in
            LayoutPlan(try LayoutDraft(response, for: .response))
        }
        if (requestPlan.serial == nil) != (responsePlan.serial == nil) {
            let lacking = requestPlan.serial == nil ? "request" : "response"
            throw LayoutError("\(lacking) serial", "the other layout has one, so this needs it too")
        }
        try self.init(request: requestPlan, response: responsePlan)
    }

    private init(request: LayoutPlan, response: LayoutPlan) throws(LayoutError) {
        outbound = request
        inbound = response
        outboundLimits = LayoutPlan.Limits(wholeFrame: maximumFrameSize, of: outbound)
        inboundLimits = LayoutPlan.Limits(wholeFrame: maximumFrameSize, of: inbound)
        roles = try Roles(RoleList(), request: request, response: response)
        marks = try RoleMarks(RoleList(), request: request, response: response)
    }

    private mutating func applyLimit() {
        let least = max(inbound.smallestFrame, outbound.smallestFrame)
        guard maximumFrameSize >= least else {
            fatalError("FrameLayout: maximumFrameSize \(maximumFrameSize) is below the smallest frame's \(least) bytes")
        }
        inboundLimits = LayoutPlan.Limits(wholeFrame: maximumFrameSize, of: inbound)
        outboundLimits = LayoutPlan.Limits(wholeFrame: maximumFrameSize, of: outbound)
    }
}
