extension FrameCodec where Self == FrameLayout {
    /// The standard layout, a twelve-byte header and a body. Integers are big-endian, and a frame has at most 16 MiB.
    ///
    /// | offset | size | field |
    /// |---|---|---|
    /// | 0 | 4 | type |
    /// | 4 | 4 | serial |
    /// | 8 | 4 | length of the body in bytes |
    /// | 12 | n | body |
    ///
    /// Type 0x1 is a ping, 0x2 to 0x400 are pushes, 0x401 cancels, 0x402 carries JSON, 0x403 carries HTTP, and the
    /// types of an application start at 0x410. Serials start at 50.
    ///
    /// Type 0x404 is a part of a message with more to come, in both directions (``Frame/Kind-swift.enum/part``). All
    /// parts have the serial of their request. The last frame of the message has another type.
    ///
    /// Two more types belong to HTTP over the link. With 0x405, the client accepts more bytes of the reply; the body is
    /// their number in four bytes, big-endian. With 0x406, the server ends an incomplete reply; the body is a code of
    /// `URLError` in decimal digits.
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
    /// Whether parts have types of their own.
    package var hasTypesOfParts: Bool { roles.part != nil }
}

extension FrameCodec where Self == FrameLayout {
    /// A layout with a repeated type and an Adler-32 checksum after the body. Integers are big-endian, and a frame has
    /// at most 16 MiB.
    ///
    /// | size | field |
    /// |---|---|
    /// | 4 | type |
    /// | 4 | serial |
    /// | 4 | response code, in frames from the server only |
    /// | 4 | length of the body in bytes |
    /// | n | body |
    /// | 4 | Adler-32 of the body (RFC 1950): 1 for an empty body |
    /// | 4 | type again |
    ///
    /// Type 0 is a ping, 1 a push, 2 cancels, and requests have the types from 3 on. Serials start at 50. A response
    /// whose code is not 200 is an error response. A body may be empty; see
    /// ``FrameLayout/requiringBody(inResponsesTo:file:line:)``.
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
