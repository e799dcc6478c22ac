public import Trunkline

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
            } else if let last = exchange.replies.last?.header, last.kind == .response {
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
                let id = event.integer("id"), let code = event.text("code"), let fate = event.text("fate")
            else { return nil }
            return (RequestID(UInt64(bitPattern: id)), code, fate)
        }
    }

    /// A request that was sent, and what the server sent in reply to it.
    package struct Exchange: Sendable {
        package let time: Duration
        package let request: Header
        package var replies: [(time: Duration, header: Header)] = []
        /// Whether the request had been sent before the oldest entry.
        package var isOfBeginning = false
    }

    /// The requests that were sent, in order, with their replies; and the frames that the server sent unasked. If no
    /// request has a serial, responses are matched in order. Requests that had been sent before the oldest entry come
    /// first, with its time.
    package var exchanges: (matched: [Exchange], unasked: [(time: Duration, header: Header)]) {
        var matched: [Exchange] = []
        var unasked: [(time: Duration, header: Header)] = []
        let posted = Set(
            entries.compactMap { entry in
                if case .call(let call) = entry.content, call.isOneWay { call.id } else { nil }
            }
        )
        /// The places in `matched` of the requests that are not answered, oldest first.
        var open: [OpenRequests: Deque<Int>] = [:]
        for request in beginning.requests {
            guard let header = request.header else { continue }
            open[OpenRequests(header), default: Deque()].append(matched.count)
            matched.append(Exchange(time: entries.first?.time ?? .zero, request: header, isOfBeginning: true))
        }
        for entry in entries {
            switch entry.content {
            case .sent(let header) where header.kind == .request:
                let key = OpenRequests(header)
                // The number of a request that was never answered may be used again.
                if header.serial != 0 { open[key] = nil }
                let isPosted = header.id.map { posted.contains($0) } ?? false
                if !header.isOneWay, !isPosted { open[key, default: Deque()].append(matched.count) }
                matched.append(Exchange(time: entry.time, request: header))
            case .received(let header) where header.kind == .response || header.kind == .part:
                let key = OpenRequests(header)
                guard let place = open[key]?.first else {
                    unasked.append((entry.time, header))
                    continue
                }
                matched[place].replies.append((entry.time, header))
                if header.kind == .response { _ = open[key]?.popFirst() }
            case .received(let header) where header.kind != .pong: unasked.append((entry.time, header))
            default: break
            }
        }
        return (matched, unasked)
    }

    /// The requests of a link that have the same serial number. There are several only if they are matched in order.
    private struct OpenRequests: Hashable {
        let session: SessionID
        let serial: SerialNumber

        init(_ header: Header) { (session, serial) = (header.session, header.serial) }
    }
}

extension Recording.Beginning.Request {
    /// The header of the frame, as far as it is known; `nil` if the request was on no link.
    fileprivate var header: Recording.Header? {
        guard let session, abandonedFor == nil else { return nil }
        return Recording.Header(
            session: session,
            id: id,
            kind: .request,
            type: type,
            serial: serial,
            status: 0,
            isErrorResponse: false,
            isMalformed: false,
            endsLink: false,
            bodyCount: 0
        )
    }
}

extension Recording.Header {
    /// The number of bytes of the body and the byte fields of the frame, recorded or not.
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

    /// The frame with this header. What was not recorded of its body and fields is filled with zeros.
    ///
    /// - Parameters:
    ///   - padding: Makes the bytes.
    ///   - sizeOfField: Returns the size of the byte field of a name, if it is known.
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
        return frame
    }
}

/// Makes bytes of which a recording has only the size, or the beginning.
package struct RecordingPadding: Sendable {
    /// Zeros that all bytes share.
    private var zeros = Bytes()

    package init() {}

    /// Returns the first `count` bytes of `bytes`, followed by zeros if they are fewer.
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
    /// The sum of two numbers that are not negative, at most `Int.max`.
    package func saturatingAdding(_ other: Int) -> Int {
        let (sum, overflows) = addingReportingOverflow(other)
        return overflows ? .max : sum
    }
}
