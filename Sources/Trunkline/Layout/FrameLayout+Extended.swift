extension FrameCodec where Self == FrameLayout {
    /// The standard header with a version, a content type and a checksum. Integers are big-endian, and a frame has at
    /// most 16 MiB.
    ///
    /// | offset | size | field |
    /// |---|---|---|
    /// | 0 | 4 | type |
    /// | 4 | 4 | protocol version, 1 unless set: `frame["version"]` |
    /// | 8 | 4 | serial |
    /// | 12 | 4 | content type, 0 unless set: `frame["contentType"]` |
    /// | 16 | 32 | SHA-256 of the body |
    /// | 48 | 4 | length of the body in bytes |
    /// | 52 | n | body |
    ///
    /// Content types are 0 for bytes, 1 for JSON, 2 for protobuf and 3 for HTTP. Types and serials are those of
    /// ``standard``.
    ///
    /// - Warning: The digest covers only the body. A wrong bit in the type, the serial or a named field is not
    ///   detected. Use TLS or, if you choose the format, `.checked(over: .headerAndBody)`.
    ///
    /// - Throws: ``LayoutError`` if the system has no libcrypto (OpenSSL) to compute SHA-256.
    public static var extended: FrameLayout {
        get throws(LayoutError) { try extendedLayout.get() }
    }
}

private let extendedLayout = Result { () throws(LayoutError) in
    try FrameLayout.extendedLayout(checksum: .sha256)
}

extension FrameLayout {
    /// Returns the layout `extended` with any checksum of 32 bytes, because some systems have no SHA-256.
    package static func extendedLayout(checksum: Checksum) throws(LayoutError) -> FrameLayout {
        try FrameLayout(validating: [
            .type(UInt32.self),
            .integer("version", UInt32.self, default: 1),
            .serial(UInt32.self),
            .contentType(UInt32.self),
            .checksum(checksum, over: .body),
            .length(UInt32.self, counting: .body),
            .body,
        ])
        .validatingRoles {
            $0.ping = 0x1
            $0.push = .types(0x2...0x400)
            $0.cancel = 0x401
            $0.part = 0x404
            $0.window = 0x405
            $0.serials = 50...
        }
    }
}
