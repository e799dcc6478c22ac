import CTrunkline
import TrunklineCore

extension Checksum {
    /// CRC-32C (Castagnoli; RFC 3720 §12.1), as in iSCSI, SCTP and Kafka: 4 bytes; 0 for empty input.
    ///
    /// Computed by the processor's own instruction if it has one (SSE 4.2, arm64 with CRC32), otherwise from a table.
    public static let crc32c = crc32cByInstruction ?? crc32cByTable

    static let crc32cByInstruction: Checksum? = {
        guard trunkline_crc32c_is_available() != 0 else { return nil }
        return Checksum(
            "crc32c",
            width: 4,
            .integer { header, body in
                var state = ~UInt32(0)
                unsafe header.withUnsafeBytes { unsafe state = trunkline_crc32c(state, $0.baseAddress, $0.count) }
                unsafe body.withUnsafeBytes { unsafe state = trunkline_crc32c(state, $0.baseAddress, $0.count) }
                return UInt64(~state)
            }
        )
    }()
}
