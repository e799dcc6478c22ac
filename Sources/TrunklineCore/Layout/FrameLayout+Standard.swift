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
    public static var standard: FrameLayout { standardLayout }
}

private let standardLayout = FrameLayout {
    Field.type(UInt32.self)
    Field.serial(UInt32.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
}
.roles(ping: 0x1, push: 0x2...0x400, cancel: 0x401, serials: 50...)
