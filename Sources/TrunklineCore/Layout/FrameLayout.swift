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
/// A layout sees the protocol as a client does: it decodes responses and pushes. A test server uses `serverSide()`.
/// Without a serial field, responses match requests in order.
public struct FrameLayout: Sendable {
    /// The plan of the frames to decode, and of those to encode.
    var inbound: LayoutPlan
    var outbound: LayoutPlan
    var inboundLimits: LayoutPlan.Limits
    var outboundLimits: LayoutPlan.Limits
    var roles: Roles
    var isServerSide = false

    /// The largest whole frame in bytes, header and trailer included; 16 MiB unless set.
    ///
    /// Holds both ways: a longer frame is refused as `illegalLength`, when received as soon as its length is there.
    /// Not less than a frame without a body has.
    public var maximumFrameSize = 16 * 1024 * 1024 {
        didSet { applyLimit() }
    }

    /// A layout of `fields` in this order. Fields that do not make a layout stop the program, with a message that names
    /// the field; see `init(validating:)`.
    public init(@LayoutBuilder _ fields: () -> [Field]) {
        do throws(LayoutError) {
            try self.init(validating: fields())
        } catch {
            fatalError("FrameLayout: \(error)")
        }
    }

    /// A layout of `fields` in this order, for fields that are not known when the program is written.
    ///
    /// Throws `LayoutError`, which names the field, for fields that do not make a layout.
    public init(validating fields: [Field]) throws(LayoutError) {
        outbound = LayoutPlan(try LayoutDraft(fields, for: .request))
        inbound = LayoutPlan(try LayoutDraft(fields, for: .response))
        outboundLimits = LayoutPlan.Limits(wholeFrame: maximumFrameSize, of: outbound)
        inboundLimits = LayoutPlan.Limits(wholeFrame: maximumFrameSize, of: inbound)
        roles = try Roles(ping: nil, pong: nil, push: nil, cancel: nil, success: nil, serials: nil, for: outbound)
    }

    private mutating func applyLimit() {
        let least = max(inbound.smallestFrame, outbound.smallestFrame)
        guard maximumFrameSize >= least else {
            fatalError("FrameLayout: maximumFrameSize \(maximumFrameSize) is below the smallest frame's \(least) bytes")
        }
        inboundLimits = LayoutPlan.Limits(wholeFrame: maximumFrameSize, of: inbound)
        outboundLimits = LayoutPlan.Limits(wholeFrame: maximumFrameSize, of: outbound)
    }

    /// The same layout with these roles, in place of any it had. Roles that do not fit stop the program.
    ///
    /// `ping`, `pong` and `cancel` go before `push` where it includes them.
    ///
    /// - Parameters:
    ///   - ping: The type of heartbeats, in both directions.
    ///   - pong: The type of their answers; that of `ping` unless given. Where the two are the same, a heartbeat is taken
    ///     for the answer when one of ours waits for it, and others are answered once a second at most.
    ///   - push: The type, or range of types, that the server sends on its own account.
    ///   - cancel: The type that cancels the request with the same serial.
    ///   - success: The status, or range of them, of a response that is not a rejection; 0 unless given.
    ///   - serials: The serials for the client's requests, as many as the serial field holds; `1...` unless given.
    public func roles(
        ping: UInt32? = nil,
        pong: UInt32? = nil,
        push: some RoleNumbers = Int?.none,
        cancel: UInt32? = nil,
        success: some RoleNumbers = Int?.none,
        serials: some RoleNumbers = Int?.none
    ) -> FrameLayout {
        do throws(LayoutError) {
            return try validatingRoles(
                ping: ping,
                pong: pong,
                push: push,
                cancel: cancel,
                success: success,
                serials: serials
            )
        } catch {
            fatalError("FrameLayout: \(error)")
        }
    }

    /// What `roles` does, but throws for roles that do not fit.
    package func validatingRoles(
        ping: UInt32? = nil,
        pong: UInt32? = nil,
        push: some RoleNumbers = Int?.none,
        cancel: UInt32? = nil,
        success: some RoleNumbers = Int?.none,
        serials: some RoleNumbers = Int?.none
    ) throws(LayoutError) -> FrameLayout {
        var layout = self
        layout.roles = try Roles(
            ping: ping,
            pong: pong,
            push: push.numbersOfRole,
            cancel: cancel,
            success: success.numbersOfRole,
            serials: serials.numbersOfRole,
            for: outbound
        )
        return layout
    }
}
