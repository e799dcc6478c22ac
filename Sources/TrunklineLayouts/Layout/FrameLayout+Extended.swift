public import TrunklineCore

extension FrameCodec where Self == FrameLayout {
    /// The standard header with a version (`frame["version"]`, default 1), a content type (`frame["contentType"]`,
    /// default 0) and the SHA-256 of the body. Integers are big-endian, and a frame has at most 16 MiB. Types and
    /// serials are those of ``standard``. <doc:FormatReference#extended> has the byte table and the content types.
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
    /// With any checksum of 32 bytes, because some systems have no SHA-256.
    static func extendedLayout(checksum: Checksum) throws(LayoutError) -> FrameLayout {
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
