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
    /// response whose code is not 200 is a rejection. A body may be empty; see `requiringBody(inResponsesTo:)`.
    public static var checked: FrameLayout { checkedLayout }
}

private let checkedLayout = FrameLayout {
    Field.type(UInt32.self)
    Field.serial(UInt32.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
    Field.checksum(.adler32, over: .body)
    Field.type(UInt32.self)
} response: {
    Field.type(UInt32.self)
    Field.serial(UInt32.self)
    Field.status(UInt32.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
    Field.checksum(.adler32, over: .body)
    Field.type(UInt32.self)
}
.roles(ping: 0, push: 1, cancel: 2, success: 200, requests: 3..., serials: 50...)
