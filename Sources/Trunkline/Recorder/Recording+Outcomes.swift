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

    /// How each recorded call ended, by the number of its request.
    ///
    /// Calls whose beginning was overwritten are missing.
    public var outcomes: [UInt64: Outcome] {
        var outcomes: [UInt64: Outcome] = [:]
        var oneWay: Set<UInt64> = []
        for entry in entries {
            guard case .call(let call) = entry.content else { continue }
            outcomes[call.id] = .pending
            if call.isOneWay { oneWay.insert(call.id) }
        }
        for exchange in exchanges.matched where outcomes[exchange.request.id] != nil {
            if oneWay.contains(exchange.request.id) {
                outcomes[exchange.request.id] = .written
            } else if let last = exchange.replies.last?.header, last.kind == .response {
                outcomes[exchange.request.id] = .answered(status: last.status, isError: last.isErrorResponse)
            }
        }
        // A response to a request that had failed came late.
        for (id, code, fate) in failures where outcomes[id] != nil {
            outcomes[id] = .failed(code: code, fate: fate)
        }
        return outcomes
    }

    private var failures: [(id: UInt64, code: String, fate: String)] {
        entries.compactMap { entry in
            guard case .event(let event) = entry.content, ["request.failed", "request.cancelled"].contains(event.name),
                case .integer(let id)? = event["id"], case .text(let code)? = event["code"],
                case .text(let fate)? = event["fate"]
            else { return nil }
            return (UInt64(bitPattern: id), code, fate)
        }
    }

    /// A request that was sent, and what the server sent in reply to it.
    package struct Exchange: Sendable {
        package let time: Duration
        package let request: Header
        package var replies: [(time: Duration, header: Header)] = []
    }

    /// The requests that were sent, in order, with their replies; and the frames that the server sent unasked. If no
    /// request has a serial, responses are matched in order.
    package var exchanges: (matched: [Exchange], unasked: [(time: Duration, header: Header)]) {
        var matched: [Exchange] = []
        var unasked: [(time: Duration, header: Header)] = []
        let posted = Set(
            entries.compactMap { entry in
                if case .call(let call) = entry.content, call.isOneWay { call.id } else { nil }
            }
        )
        /// The places in `matched` of the requests that are not answered, of each session.
        var open: [UInt64: [Int]] = [:]
        for entry in entries {
            switch entry.content {
            case .sent(let header) where header.kind == .request:
                // The number of a request that was never answered may be used again.
                if header.serial != 0 {
                    open[header.session]?.removeAll { matched[$0].request.serial == header.serial }
                }
                if !header.isOneWay, !posted.contains(header.id) {
                    open[header.session, default: []].append(matched.count)
                }
                matched.append(Exchange(time: entry.time, request: header))
            case .received(let header) where header.kind == .response || header.kind == .part:
                let candidates = open[header.session] ?? []
                let place = candidates.firstIndex { matched[$0].request.serial == header.serial }
                guard let place else {
                    unasked.append((entry.time, header))
                    continue
                }
                matched[candidates[place]].replies.append((entry.time, header))
                if header.kind == .response { open[header.session]?.remove(at: place) }
            case .received(let header) where header.kind != .pong: unasked.append((entry.time, header))
            default: break
            }
        }
        return (matched, unasked)
    }
}

extension Recording.Header {
    /// The maximum size of a body or field that is filled with zeros, in bytes.
    private static let maximumFill = 64 << 20

    /// The frame with this header. What was not recorded of its body and fields is filled with zeros, up to 64 MiB.
    package var frame: Frame {
        var frame = Frame(
            kind,
            type: type,
            serial: serial,
            status: status,
            isErrorResponse: isErrorResponse,
            body: Self.filled(body ?? Bytes(), to: bodyCount)
        )
        for field in fields {
            switch field.value {
            case .number(let number): frame[field.name] = number
            case .bytes(let bytes): frame[bytes: field.name] = bytes
            case .size(let size): frame[bytes: field.name] = Self.filled(Bytes(), to: size)
            }
        }
        return frame
    }

    /// The first `count` bytes of `bytes`, followed by zeros.
    package static func filled(_ bytes: Bytes, to count: Int) -> Bytes {
        let count = min(max(0, count), maximumFill)
        let known = Array(bytes.prefix(count))
        return Bytes(known + [UInt8](repeating: 0, count: count - known.count))
    }
}
