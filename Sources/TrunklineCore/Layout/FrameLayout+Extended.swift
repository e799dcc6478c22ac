extension FrameLayout {
    /// The layout `extended`, whose checksum has 32 bytes; Core has no SHA-256, so it comes from outside.
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
        .validatingRoles(ping: 0x1, push: 0x2...0x400, cancel: 0x401, part: 0x404, serials: 50...)
        .withWindow(0x405)
    }
}
