extension FrameCodec where Self == FrameLayout {
    /// The twelve-byte header: integers are big-endian, the frame is at most 16 MiB.
    ///
    /// | offset | size | field |
    /// |---|---|---|
    /// | 0 | 4 | type |
    /// | 4 | 4 | serial |
    /// | 8 | 4 | length of the body in bytes |
    /// | 12 | n | body |
    ///
    /// Type 0x1 is a heartbeat, 0x2 to 0x400 are pushes, 0x401 cancels, 0x402 carries JSON, 0x403 carries HTTP, and an
    /// application's own types start at 0x410. Serials start at 50.
    ///
    /// Type 0x404 is a piece of a message with more to come, in both directions (`Frame.Kind.part`): all pieces have the
    /// serial of their request, and the last has another type. Two more types belong to HTTP over the link: 0x405 is the
    /// client's word that it will take so many more bytes of the reply, four bytes, big-endian; 0x406 is the server's word
    /// that the reply ends here and is not whole, a code of `URLError` in decimal digits.
    public static var standard: FrameLayout { standardLayout }
}

private let standardLayout = FrameLayout {
    Field.type(UInt32.self)
    Field.serial(UInt32.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
}
.roles(ping: 0x1, push: .types(0x2...0x400), cancel: 0x401, part: 0x404, window: 0x405, serials: 50...)

extension FrameLayout {
    /// Whether the type of a part is one of its own, which says so.
    package var hasTypesOfParts: Bool { roles.part != nil }
}

extension FrameCodec where Self == FrameLayout {
    /// A header with a repeated type and an Adler-32 behind the body: integers are big-endian, the frame is at most
    /// 16 MiB.
    ///
    /// | size | field |
    /// |---|---|
    /// | 4 | type |
    /// | 4 | serial |
    /// | 4 | response code, in frames from the server only |
    /// | 4 | length of the body in bytes |
    /// | n | body |
    /// | 4 | Adler-32 of the body (RFC 1950): 1 for an empty one |
    /// | 4 | type again |
    ///
    /// Type 0 is a heartbeat, 1 a push, 2 cancels, and requests have the types from 3 on. Serials start at 50. A
    /// response whose code is not 200 is an error response. A body may be empty; see `requiringBody(inResponsesTo:)`.
    ///
    /// - Warning: The checksum covers the body alone, and the repetition the type. A wrong bit in the serial gives the
    ///   response to another request as a success, and one in the response code is not noticed. Where you choose the
    ///   format, use ``checked(over:by:)`` with `.headerAndBody`, or TLS.
    public static var checked: FrameLayout { checkedLayout }

    /// The layout of ``checked`` with a checksum over `scope` in place of the Adler-32 of the body:
    /// `.checked(over: .headerAndBody)` is the one to choose for a protocol of your own without TLS.
    ///
    /// With `.headerAndBody` no single wrong bit of a frame goes unnoticed: it ends the link (`checksumMismatch` and others),
    /// as after a wrong serial the request of the response is unknown.
    ///
    /// - Parameters:
    ///   - scope: What the checksum covers: all that comes before it, or the body alone.
    ///   - checksum: CRC-32 unless given, which is better than Adler-32 for short frames. Of another width, it changes the
    ///     size of the frame's end.
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
    .roles(ping: 0, push: 1, cancel: 2, success: 200, requests: 3..., serials: 50...)
}
