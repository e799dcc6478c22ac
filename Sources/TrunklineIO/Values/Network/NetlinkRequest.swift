enum NetlinkRequest {
    /// RTM_GETROUTE for a TCP segment. With `findsEntry`, the entry names the interface of an address of this host.
    static func route(
        to address: SocketAddress,
        from source: SocketAddress?,
        findsEntry: Bool = false,
        sequence: UInt32
    ) -> [UInt8]? {
        guard let target = address.ipBytes, target.count == 4 || target.count == 16 else { return nil }
        let from = source?.ipBytes
        guard from == nil || from?.count == target.count else { return nil }
        var message = Message(type: 26, sequence: sequence)
        message.append(UInt8(target.count == 4 ? 2 : 10))  // AF_INET, AF_INET6
        message.append(UInt8(target.count * 8))
        message.append(UInt8((from?.count ?? 0) * 8))
        for _ in 0..<5 { message.append(UInt8(0)) }  // service, table, protocol, scope, type
        message.append(UInt32(findsEntry ? 0x2000 : 0))  // RTM_F_FIB_MATCH
        message.attribute(1) { $0 += target }  // RTA_DST
        if let from { message.attribute(2) { $0 += from } }  // RTA_SRC
        if case .ipv6(_, _, let scope) = address, scope != 0 {
            message.attribute(4) { $0.appendNetlink(scope) }  // RTA_OIF
        }
        if !findsEntry {
            // Routing rules may depend on the port.
            message.attribute(27) { $0.append(6) }  // RTA_IP_PROTO: TCP
            if let port = address.port, port != 0 {
                message.attribute(29) { $0.appendNetlink(port.bigEndian) }  // RTA_DPORT
            }
        }
        return message.finished
    }

    /// RTM_GETLINK.
    static func link(_ index: UInt32, sequence: UInt32) -> [UInt8] {
        var message = Message(type: 18, sequence: sequence)
        message.append(UInt32(0))  // family, type
        message.append(index)
        message.append(UInt32(0))  // flags
        message.append(UInt32(0))  // change mask
        message.attribute(29) { $0.appendNetlink(UInt32(8)) }  // IFLA_EXT_MASK: without statistics
        return message.finished
    }

    private struct Message {
        private var bytes: [UInt8] = []

        init(type: UInt16, sequence: UInt32) {
            append(UInt32(0))  // the length
            append(type)
            append(UInt16(1))  // NLM_F_REQUEST
            append(sequence)
            append(UInt32(0))
        }

        mutating func append(_ value: some FixedWidthInteger) { bytes.appendNetlink(value) }

        mutating func attribute(_ type: UInt16, _ write: (inout [UInt8]) -> Void) {
            var value: [UInt8] = []
            write(&value)
            append(UInt16(value.count + 4))
            append(type)
            bytes += value
            while bytes.count % 4 != 0 { bytes.append(0) }
        }

        var finished: [UInt8] {
            var length: [UInt8] = []
            length.appendNetlink(UInt32(bytes.count))
            return length + bytes.dropFirst(4)
        }
    }
}

extension [UInt8] {
    fileprivate mutating func appendNetlink<Value: FixedWidthInteger>(_ value: Value) {
        var rest = value.littleEndian
        for _ in 0..<Value.bitWidth / 8 {
            append(UInt8(truncatingIfNeeded: rest))
            rest = Value.bitWidth > 8 ? rest >> 8 : 0
        }
    }
}
