import TrunklineCore

/// The members of one message of JSON-RPC 2.0, as ranges of its text. Values are found and not decoded.
struct JSONRPCMessage {
    private(set) var id: Range<Int>?
    private(set) var method: Range<Int>?
    private(set) var params: Range<Int>?
    private(set) var result: Range<Int>?
    private(set) var error: Range<Int>?
    private var version: Range<Int>?
    /// The members before the mistake were found.
    private(set) var problem: FrameError?

    init(_ text: Bytes) {
        text.withSpan { span in
            do throws(FrameError) { try read(span) } catch { problem = error }
        }
    }

    private mutating func read(_ text: Span<UInt8>) throws(FrameError) {
        var scanner = JSONScanner()
        var found = self
        defer { self = found }
        try scanner.members(in: text) { name, value throws(FrameError) in
            switch JSONRPCName(text, name) {
            case .jsonrpc: try Self.set(&found.version, value, .jsonrpc)
            case .id: try Self.set(&found.id, value, .id)
            case .method: try Self.set(&found.method, value, .method)
            case .params: try Self.set(&found.params, value, .params)
            case .result: try Self.set(&found.result, value, .result)
            case .error: try Self.set(&found.error, value, .error)
            case .code, .message, .data, nil: break
            }
        }
        try scanner.expectEnd(of: text)
        guard let version = found.version, text.equals("\"2.0\"", in: version) else {
            throw FrameError(.malformed, "the member jsonrpc is not \"2.0\"")
        }
        // Peers that write all members write null for those that they do not have.
        if let params = found.params, text.equals("null", in: params) { found.params = nil }
        if let error = found.error, text.equals("null", in: error) { found.error = nil }
        if let result = found.result, found.error != nil, text.equals("null", in: result) { found.result = nil }
        try found.check(text)
    }

    /// Two members with the same name are an error: readers differ in which one counts (RFC 8259, section 4).
    private static func set(
        _ member: inout Range<Int>?,
        _ value: Range<Int>,
        _ name: JSONRPCName
    ) throws(FrameError) {
        guard member == nil else { throw FrameError(.malformed, "two members have the name \(name)") }
        member = value
    }

    /// Checks what the specification says about each kind of message (sections 4, 5).
    private func check(_ text: Span<UInt8>) throws(FrameError) {
        if let id, !text.isID(id) {
            // A response to a request whose id the server could not read has the id null.
            guard method == nil, text.equals("null", in: id) else {
                throw FrameError(.malformed, "the id is neither a string nor a number, or has more than 512 bytes")
            }
        }
        guard let method else {
            guard id != nil, (result == nil) != (error == nil) else {
                throw FrameError(.malformed, "a message without a method, or with one of id, result and error too few")
            }
            return
        }
        guard text.isString(method) else { throw FrameError(.malformed, "the method is not a string") }
        if let params, text[params.lowerBound] != 0x7B, text[params.lowerBound] != 0x5B {
            throw FrameError(.malformed, "the parameters are neither an object nor an array")
        }
    }
}

extension Span<UInt8> {
    fileprivate func isID(_ range: Range<Int>) -> Bool {
        let first = self[range.lowerBound]
        return range.count <= JSONRPCIDs.maximumSize && (isString(range) || first == 0x2D || first &- 0x30 < 10)
    }
}
