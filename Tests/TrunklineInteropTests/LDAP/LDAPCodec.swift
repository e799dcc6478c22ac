import Trunkline

/// A codec for LDAP (RFC 4511): operations with message IDs, in BER.
///
/// A frame's type is the tag of its operation, and its body is the content of that. Entries of a search are parts, with
/// the name of the entry as their body.
struct LDAPCodec: FrameCodec, CancellingCodec, ClosingCodec {
    enum Operation: UInt32 {
        case bindRequest = 0x60, bindResponse = 0x61, unbindRequest = 0x42
        case searchRequest = 0x63, searchEntry = 0x64, searchDone = 0x65, searchReference = 0x73
        case addRequest = 0x68, addResponse = 0x69
        case abandonRequest = 0x50
        case extendedRequest = 0x77, extendedResponse = 0x78, intermediateResponse = 0x79
    }

    /// How a search is cancelled: with Abandon (section 4.11), which has no response, or with Cancel (RFC 3909), which has
    /// one and gives the search one.
    let kind: CancelKind

    /// Section 4.1.1.1: 0 is the server's. The IDs of the client are positive integers of 31 bits.
    var matching: ResponseMatching { .serial(1...0x7FFF_FFFF) }
    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? { Frame(.cancel, serial: serial) }
    func cancelKind(ofType type: UInt32) -> CancelKind { kind }
    func closingFrame() -> Frame? { Frame(.request, type: Operation.unbindRequest.rawValue) }

    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let message = try BER.header(of: input) else { return nil }
        input.await(message.size)
        guard input.count >= message.size, let bytes = input.readBytes(message.size) else { return nil }
        do throws(FrameError) {
            return try frame(bytes, headerSize: message.headerSize)
        } catch {
            let hex = bytes.map { String($0, radix: 16) }.joined(separator: " ")
            throw FrameError(error.code, "\(error.message): \(hex)")
        }
    }

    private func frame(_ bytes: Bytes, headerSize: Int) throws(FrameError) -> Frame {
        var fields = ReceiveBuffer(Bytes(bytes.dropFirst(headerSize)))
        let id = try BER.integer(try BER.read(from: &fields).content)
        let (tag, content) = try BER.read(from: &fields)
        var frame = Frame(.response, type: UInt32(tag), serial: id)
        switch Operation(rawValue: frame.type) {
        case .searchEntry, .searchReference, .intermediateResponse:
            frame.kind = .part
            var entry = ReceiveBuffer(content)
            if frame.type == Operation.searchEntry.rawValue { frame.body = try BER.read(from: &entry).content }
        case .bindResponse, .searchDone, .addResponse, .extendedResponse:
            // LDAPResult (section 4.1.9): a code, a name and a text.
            var result = ReceiveBuffer(content)
            frame.status = UInt32(try BER.integer(try BER.read(from: &result).content))
            _ = try BER.read(from: &result)
            let text = try BER.read(from: &result).content
            frame.isErrorResponse = frame.status != 0
            if frame.isErrorResponse {
                let name = Self.names[frame.status] ?? ""
                frame.reason = ServerReason(name, code: Int(frame.status), text: String(text))
            }
            // Section 4.4.1: the server closes the connection.
            if id == 0 {
                frame.kind = .goAway
                frame.markLinkEnding(.now)
            }
        default: throw FrameError(.unknownType, "a message with the tag \(tag)")
        }
        return frame
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        var operation = frame.body
        var tag = UInt8(truncatingIfNeeded: frame.type)
        if frame.kind == .cancel, let cancelled = frame.cancelledSerial {
            if kind == .unansweredRequest {
                tag = UInt8(Operation.abandonRequest.rawValue)
                operation = BER.content(of: cancelled)
            } else {
                tag = UInt8(Operation.extendedRequest.rawValue)
                let id = BER.element(0x30, BER.integer(cancelled))
                operation = BER.element(0x80, "1.3.6.1.1.8") + BER.element(0x81, id)
            }
        }
        let controls = frame[bytes: "controls"].map { BER.element(0xA0, $0) } ?? ""
        output.append(BER.element(0x30, BER.integer(frame.serial) + BER.element(tag, operation) + controls))
    }

    /// Some of the codes of appendix A.1, and those of RFC 3909.
    private static let names: [UInt32: String] = [
        32: "noSuchObject", 49: "invalidCredentials", 50: "insufficientAccessRights", 52: "unavailable",
        68: "entryAlreadyExists", 118: "canceled", 119: "noSuchOperation", 120: "tooLate", 121: "cannotCancel",
    ]
}

extension Request {
    static func bind(as name: Bytes, password: Bytes) -> Request {
        Request(
            type: LDAPCodec.Operation.bindRequest.rawValue,
            body: BER.integer(3) + BER.element(0x04, name) + BER.element(0x80, password)
        )
    }

    /// Searches below `base` for entries with any object class.
    static func search(below base: Bytes) -> Request {
        let body =
            BER.element(0x04, base) + BER.element(0x0A, [2]) + BER.element(0x0A, [0]) + BER.integer(0) + BER.integer(0)
            + BER.element(0x01, [0]) + BER.element(0x87, "objectClass") + BER.element(0x30, "")
        return Request(type: LDAPCodec.Operation.searchRequest.rawValue, body: body)
    }

    /// Searches, and then reports every change until it is cancelled (refreshAndPersist, RFC 4533, section 3.4).
    static func watch(_ base: Bytes) -> Request {
        var request = search(below: base)
        let value = BER.element(0x30, BER.element(0x0A, [3]))
        request[bytes: "controls"] = BER.element(
            0x30,
            BER.element(0x04, "1.3.6.1.4.1.4203.1.9.1.1") + BER.element(0x01, [0xFF]) + BER.element(0x04, value)
        )
        return request
    }

    /// Adds an organizational unit.
    static func add(_ name: String, below base: String) -> Request {
        func attribute(_ type: Bytes, _ value: Bytes) -> Bytes {
            BER.element(0x30, BER.element(0x04, type) + BER.element(0x31, BER.element(0x04, value)))
        }
        let attributes = attribute("objectClass", "organizationalUnit") + attribute("ou", Bytes(name))
        let body = BER.element(0x04, Bytes("ou=\(name),\(base)")) + BER.element(0x30, attributes)
        return Request(type: LDAPCodec.Operation.addRequest.rawValue, body: body)
    }
}

/// The elements of ASN.1, as LDAP encodes them (RFC 4511, section 5.1): a tag of a byte, a length, a content.
private enum BER {
    static func header(of input: ReceiveBuffer, at offset: Int = 0) throws(FrameError) -> (headerSize: Int, size: Int)?
    {
        guard let first = input.byte(at: offset + 1) else { return nil }
        var (headerSize, length) = (2, UInt64(first))
        if first >= 0x80 {
            let width = Int(first) - 0x80
            guard 1...4 ~= width else { throw FrameError(.illegalLength, "a length of \(width) bytes") }
            guard let value = input.integer(at: offset + 2, width: width) else { return nil }
            (headerSize, length) = (2 + width, value)
        }
        guard length <= 1_048_576 else { throw FrameError(exceedingLimit: "an element of \(length) bytes") }
        return (headerSize, headerSize + Int(length))
    }

    static func read(from input: inout ReceiveBuffer) throws(FrameError) -> (tag: UInt8, content: Bytes) {
        guard let (headerSize, size) = try header(of: input), let tag = input.byte(at: 0),
            let bytes = input.readBytes(size)
        else {
            throw FrameError(.illegalLength, "an element is longer than its message")
        }
        return (tag, Bytes(bytes.dropFirst(headerSize)))
    }

    static func integer(_ content: Bytes) throws(FrameError) -> UInt64 {
        guard 1...4 ~= content.count else { throw FrameError(.illegalLength, "an integer of \(content.count) bytes") }
        return content.reduce(0) { $0 << 8 | UInt64($1) }
    }

    static func element(_ tag: UInt8, _ content: Bytes) -> Bytes {
        let count = content.count
        let length: [UInt8] = count < 0x80 ? [UInt8(count)] : [0x82, UInt8(count >> 8), UInt8(count & 0xFF)]
        return Bytes([tag] + length) + content
    }

    /// The content of a positive integer: its bytes, and a zero if the first would be a sign.
    static func content(of value: UInt64) -> Bytes {
        let all = (0..<8).map { UInt8(truncatingIfNeeded: value >> (56 - 8 * $0)) }
        var bytes = Array(all.drop { $0 == 0 })
        if (bytes.first ?? 0x80) >= 0x80 { bytes.insert(0, at: 0) }
        return Bytes(bytes)
    }

    static func integer(_ value: UInt64) -> Bytes { element(0x02, content(of: value)) }
}
