import TrunklineCore

extension FrameLayout {
    /// Returns a copy of this layout with the roles that `declare` sets, which say what its frames are for. See
    /// <doc:DescribingYourProtocol#Roles>.
    ///
    /// ``Roles`` has a property for each role. The closure receives a value without roles: the new roles replace all
    /// earlier ones. Roles that do not fit the fields, or that contradict each other, stop the program with a message
    /// that names the role.
    ///
    /// - Parameters:
    ///   - declare: Sets the properties of the roles that the protocol has. It is called once, before the method
    ///     returns.
    ///   - file: The file that the failure message names. The default is the caller's.
    ///   - line: The line that the failure message names. The default is the caller's.
    /// - Returns: A layout with these roles. Its fields, its size limit, its push keys and its rules of
    ///   ``requiringBody(inResponsesTo:file:line:)`` stay the same.
    public func roles(
        _ declare: (inout Roles) -> Void,
        file: StaticString = #fileID,
        line: UInt = #line
    ) -> FrameLayout {
        LayoutError.stopping(file, line) { () throws(LayoutError) in try validatingRoles(declare) }
    }

    package func validatingRoles(_ declare: (inout Roles) -> Void) throws(LayoutError) -> FrameLayout {
        var declared = Roles()
        declare(&declared)
        declared.bodies = self.declared.bodies
        var layout = self
        layout.roles = try CheckedRoles(declared, request: request.shape, response: response.shape)
        if hasReading { layout.roles.hasMarks = true }
        layout.declared = declared
        if declared.heartbeat != nil { try layout.checkHeartbeat() }
        return layout
    }

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
    /// fails. It is checked before the rule of ``FrameLayout/reading(_:)`` is applied. A test server cannot send such a
    /// response. Use this method if other frames may have an empty body;
    /// ``Field/body(sizes:)`` limits the bodies of all frames. Types that do not fit the layout stop the program.
    public func requiringBody(
        inResponsesTo types: some RangeExpression<UInt32>,
        file: StaticString = #fileID,
        line: UInt = #line
    ) -> FrameLayout {
        LayoutError.stopping(file, line) { () throws(LayoutError) in try validatingBodies(inResponsesTo: types) }
    }

    package func validatingBodies(
        inResponsesTo types: some RangeExpression<UInt32>
    ) throws(LayoutError) -> FrameLayout {
        var layout = self
        layout.declared.bodies = numbers(of: types)
        layout.roles.bodies = try CheckedRoles.codes(
            "bodies",
            layout.declared.bodies,
            in: [request.shape.type, response.shape.type]
        )
        layout.roles.hasMarks = true
        return layout
    }
}
