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
.roles(ping: 0x1, push: 0x2...0x400, cancel: 0x401, part: 0x404, serials: 50...)
.withWindow(0x405)

extension FrameLayout {
    func withWindow(_ type: UInt32) -> FrameLayout {
        var layout = self
        layout.roles.window = type
        return layout
    }

    /// Whether `frame`, of a client, says something about a request under way, and is neither a piece of it nor its end.
    package func isWindowUpdate(_ frame: borrowing Frame) -> Bool { frame.type == roles.window }

    /// Whether the type of a part is one of its own, which says so.
    package var hasTypesOfParts: Bool { roles.part != nil }
}
