public import TrunklineCore

extension Recording {
    /// How a recorded call ended.
    @nonexhaustive
    public enum Outcome: Sendable, Hashable {
        /// It had not ended at the end of the recording.
        case pending
        /// The one-way message was written.
        case written
        /// The server answered with this status, possibly with an error.
        case answered(status: UInt32, isError: Bool)
        /// It failed with an error of this code and fate, as the errors are named: `timedOut`, `unknown`.
        case failed(code: String, fate: String)
    }

    /// How each recorded call ended, by the ID of its request.
    ///
    /// Calls whose beginning was overwritten are missing.
    public var outcomes: [RequestID: Outcome] {
        var outcomes: [RequestID: Outcome] = [:]
        var oneWay: Set<RequestID> = []
        for entry in entries {
            guard case .call(let call) = entry.content else { continue }
            outcomes[call.id] = .pending
            if call.isOneWay { oneWay.insert(call.id) }
        }
        for exchange in exchanges.matched {
            guard let id = exchange.request.id, outcomes[id] != nil else { continue }
            if oneWay.contains(id) {
                outcomes[id] = .written
            } else if let last = exchange.lastReply?.header, last.kind == .response {
                outcomes[id] = .answered(status: last.status, isError: last.isErrorResponse)
            }
        }
        // A response to a request that had failed came late.
        for (id, code, fate) in failures where outcomes[id] != nil {
            outcomes[id] = .failed(code: code, fate: fate)
        }
        return outcomes
    }

    private var failures: [(id: RequestID, code: String, fate: String)] {
        entries.compactMap { entry in
            guard case .event(let event) = entry.content, ["request.failed", "request.cancelled"].contains(event.name),
                let id = event.request, let code = event.text("code"), let fate = event.text("fate")
            else { return nil }
            return (id, code, fate)
        }
    }
}

extension Recording.Header {
    package var declaredCount: Int {
        fields.reduce(bodyCount) { sum, field in
            let count =
                switch field.value {
                case .number: 0
                case .bytes(let bytes): bytes.count
                case .size(let size): size
                }
            return sum.saturatingAdding(count)
        }
    }

    /// What was not recorded of the body and fields is filled with zeros.
    ///
    /// - Parameter sizeOfField: Returns the size of the byte field of a name, if known.
    package func frame(
        _ padding: inout RecordingPadding,
        sizeOfField: (String) -> Int? = { _ in nil }
    ) -> Frame {
        var frame = Frame(
            kind,
            type: type,
            serial: serial,
            status: status,
            isErrorResponse: isErrorResponse,
            body: padding.padded(body, to: bodyCount)
        )
        frame.setFields(
            fields.map { field in
                switch field.value {
                case .number(let number): Frame.NamedField(name: field.name, value: .number(number))
                case .size(let size): Frame.NamedField(name: field.name, value: .bytes(padding.padded(nil, to: size)))
                case .bytes(let bytes):
                    Frame.NamedField(
                        name: field.name,
                        value: .bytes(padding.padded(bytes, to: sizeOfField(field.name) ?? bytes.count))
                    )
                }
            }
        )
        (frame.answers, frame.answeredTypes) = (marks.answers, marks.answeredTypes)
        frame.isFateUnknown = marks.isFateUnknown
        return frame
    }

    /// If `codec` takes the name of requests from what was not recorded, the name stands in place of the zeros: in a
    /// byte field of its size or, in a body of at most 64 KiB, at the beginning, before spaces.
    package func frame(
        _ padding: inout RecordingPadding,
        named codec: ProtocolCodec,
        sizeOfField: (String) -> Int? = { _ in nil }
    ) -> Frame {
        let frame = frame(&padding, sizeOfField: sizeOfField)
        guard kind == .request, codec.namesEachRequest, let name, ProtocolCodec.mayName(name),
            codec.name(of: frame) != name
        else { return frame }
        let text = Bytes(name)
        for field in fields where field.value == .size(text.count) {
            var named = frame
            named[bytes: field.name] = text
            if codec.name(of: named) == name { return named }
        }
        guard body == nil, text.count <= bodyCount, bodyCount <= 65_536 else { return frame }
        var named = frame
        named.body = text + Bytes(repeating: 0x20, count: bodyCount - text.count)
        return codec.name(of: named) == name ? named : frame
    }
}

/// Makes bytes of which a recording has only the size, or the beginning.
package struct RecordingPadding: Sendable {
    private var zeros = Bytes()

    package init() {}

    package mutating func padded(_ bytes: Bytes?, to count: Int) -> Bytes {
        if let bytes, !bytes.isEmpty {
            let missing = max(0, count - bytes.count)
            return missing == 0 ? bytes.shared(0..<count) : bytes + Bytes(repeating: 0, count: missing)
        }
        if zeros.count < count { zeros = Bytes(repeating: 0, count: max(count, 4096)) }
        return zeros.shared(0..<count)
    }
}

extension Int {
    package func saturatingAdding(_ other: Int) -> Int {
        let (sum, overflows) = addingReportingOverflow(other)
        return overflows ? .max : sum
    }
}
