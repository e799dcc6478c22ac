public import TrunklineCore

extension FrameCodec where Self == FrameLayout {
    /// The standard layout: type, serial and length of the body in four bytes each, and the body. Integers are
    /// big-endian, and a frame has at most 16 MiB.
    ///
    /// The types of an application start at 0x410, and serials at 50. The types below are pings, pushes, cancellations,
    /// parts of messages, JSON and HTTP: see <doc:FormatReference#standard>.
    public static var standard: FrameLayout { standardLayout }
}

private let standardLayout = FrameLayout {
    Field.type(UInt32.self)
    Field.serial(UInt32.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
}
.roles {
    $0.ping = 0x1
    $0.push = .types(0x2...0x400)
    $0.cancel = 0x401
    $0.part = 0x404
    $0.window = 0x405
    $0.serials = 50...
}

extension FrameLayout {
    package var hasTypesOfParts: Bool { roles.part != nil }
}

extension FrameCodec where Self == FrameLayout {
    /// A layout with a repeated type and an Adler-32 checksum (RFC 1950) of the body. Integers are big-endian, and a
    /// frame has at most 16 MiB.
    ///
    /// A response whose code is not 200 is an error response. A body may be empty; see
    /// ``FrameLayout/requiringBody(inResponsesTo:file:line:)``. <doc:FormatReference#checked> has the byte table and
    /// the types.
    ///
    /// - Warning: The checksum covers only the body, and the repetition only the type. If a bit of the serial is wrong,
    ///   another request gets the response as a success. A wrong bit in the response code is not detected either. If
    ///   you can choose the format, use ``checked(over:by:)`` with `.headerAndBody`, or TLS.
    public static var checked: FrameLayout { checkedLayout }

    /// Returns the layout of ``checked`` with a checksum over `scope` in place of the Adler-32 of the body.
    ///
    /// For a custom protocol without TLS, use `.checked(over: .headerAndBody)`. It detects every single wrong bit of a
    /// frame. Such a frame ends the link (with `checksumMismatch` or another error), because the serial may be wrong,
    /// so the request of the response is unknown.
    ///
    /// - Parameters:
    ///   - scope: The bytes that the checksum covers: the header and the body, or only the body.
    ///   - checksum: The algorithm; CRC-32 by default, which is better than Adler-32 for short frames. A checksum of
    ///     another width changes the size of the frame.
    public static func checked(over scope: Checksum.Scope, by checksum: Checksum = .crc32) -> FrameLayout {
        layout(with: checksum, over: scope)
    }
}

private let checkedLayout = layout(with: .adler32, over: .body)

private func layout(with checksum: Checksum, over scope: Checksum.Scope) -> FrameLayout {
    func fields(_ status: [Field]) -> [Field] {
        [.type(UInt32.self), .serial(UInt32.self)] + status
            + [.length(UInt32.self, counting: .body), .body, .checksum(checksum, over: scope), .type(UInt32.self)]
    }
    return FrameLayout {
        fields([])
    } response: {
        fields([.status(UInt32.self)])
    }
    .roles {
        $0.ping = 0
        $0.push = 1
        $0.cancel = 2
        $0.success = 200
        $0.requests = 3...
        $0.serials = 50...
    }
}
