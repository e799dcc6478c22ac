public import TrunklineCore
import TrunklineLayouts

extension Recording {
    /// Returns the recording as a capture file in the pcapng format, which Wireshark and tshark open.
    ///
    /// Together with ``/Trunkline/FrameLayout/wiresharkDissector(name:port:)``, Wireshark shows every frame with its
    /// header fields: see <doc:FlightRecorder>. The network packets are synthesized. Each link is a TCP connection over
    /// IPv4, unencrypted even if the link used TLS, from 10.0.0.1 and a port of its own to the server. The bytes of
    /// each frame are what `codec` writes for its header; bodies and byte fields that were not recorded are zeros of
    /// the recorded size.
    ///
    /// - Each event is the comment of a packet. Events that say how a link began or ended are comments of its SYN, ACK,
    ///   FIN or RST segments. Every other event has a syslog datagram of its own with the same text, sent from the port
    ///   of its link, or from port 514.
    /// - A frame that was malformed or cannot be encoded is an empty segment whose comment says so.
    /// - A frame of more than about 64 KiB is not captured beyond its first 64 KiB. The sizes and sequence numbers of
    ///   the segments remain those of the whole frame.
    /// - A capture has room for 256 MiB of frames, counted in their whole size; a quarter of it is kept for frames of
    ///   up to 1 KiB. A frame of more than 64 MiB, or for which there is no room left, is an empty segment with a
    ///   comment.
    /// - Calls are not in the capture, and neither are values that a handshake sets with
    ///   ``/Trunkline/Handshaker/setDefault(_:to:)-(_,Bytes)``.
    ///
    /// - Parameters:
    ///   - codec: The codec of the client.
    ///   - port: The server's port in the capture. By default that of the endpoint, or 7000 if it has none. With
    ///     several endpoints, pass the port of the dissector, so that it applies to all of them.
    /// - Returns: The bytes of the file.
    public func pcapng(speaking codec: some FrameCodec, port: UInt16? = nil) -> [UInt8] {
        pcapng(speaking: codec, port: port, room: 256 << 20)
    }

    /// - Parameter room: In bytes, for all frames.
    package func pcapng(speaking codec: some FrameCodec, port: UInt16? = nil, room: Int) -> [UInt8] {
        var capture = RecordingCapture(of: self, codec, port: port, room: room)
        for entry in entries { capture.add(entry) }
        return capture.file.bytes
    }
}

/// Turns the entries of a recording into packets, one after another.
private struct RecordingCapture {
    private struct Attempt: Hashable {
        let endpoint: String?
        let number: Int64?

        init(_ event: Recording.Event) { self.init(event.text("endpoint"), event.integer("attempt")) }
        init(_ endpoint: String?, _ number: Int64?) { (self.endpoint, self.number) = (endpoint, number) }
    }

    /// A link, or an attempt to establish one.
    private struct Link {
        var connection: CapturedConnection
        var client: LinkCodec
        var server: LinkCodec
        let attempt: Attempt
        var isAttempt = false
        var isEstablished = false
    }

    private struct SentRequest {
        let link: Int
        let packet: Int
        let description: String
    }

    private(set) var file: PcapngWriter
    private let codec: ProtocolCodec
    private let start: Duration
    private let servers: ServerAddresses
    private var endpoints: [SessionID: String] = [:]
    private var links: [Link] = []
    private var open: [SessionID: Int] = [:]
    /// Oldest first. `latestAttempt` removes links that are no attempts any more from the end.
    private var attempts: [Int] = []
    private var attemptsAtEndpoint: [String?: [Int]] = [:]
    private var attemptsByName: [Attempt: [Int]] = [:]
    private var requests: [RequestID: SentRequest] = [:]
    /// In bytes. The last `roomOfSmallFrames` of them are for small frames.
    private var room: Int
    private let roomOfSmallFrames: Int
    private var padding = RecordingPadding()
    /// A port of a server would make a dissector confuse the directions.
    private let clientPorts: [UInt16]

    private static let maximumCapture = 68 << 10
    private static let maximumSmallFrame = 1 << 10
    private static let segmentSize = 32 << 10
    private static let maximumEncoded = 64 << 20
    private static let clientAddress: [UInt8] = [10, 0, 0, 1]
    private static let syslogPort: UInt16 = 514

    init(of recording: Recording, _ codec: some FrameCodec, port: UInt16?, room: Int) {
        self.codec = ProtocolCodec(codec)
        self.room = room
        roomOfSmallFrames = room / 4
        start = recording.start ?? .zero
        var comments = [
            "Made from a recording of Trunkline: the packets are synthesized, and what was not recorded is zeros."
        ]
        if !recording.isComplete { comments.append("The recording does not begin with the start of the client.") }
        file = PcapngWriter(application: "Trunkline", interface: "trunkline", comments: comments)
        let events = recording.entries.compactMap { entry -> Recording.Event? in
            if case .event(let event) = entry.content { event } else { nil }
        }
        let named = recording.beginning.links.map(\.endpoint) + events.compactMap { $0.text("endpoint") }
        servers = ServerAddresses(named, port: port)
        // Ports that no protocol of Wireshark uses. A recording may have a server on every one of them.
        let ports: ClosedRange<UInt16> = 49152...65535
        let free = ports.filter { [taken = servers.ports] in !taken.contains($0) }
        clientPorts = free.isEmpty ? Array(ports) : free
        for link in recording.beginning.links { endpoints[link.session] = link.endpoint }
        for event in events {
            if let session = event.session, let endpoint = event.text("endpoint") { endpoints[session] = endpoint }
        }
    }

    mutating func add(_ entry: Recording.Entry) {
        let time = UInt64(max(0, (start + entry.time).clampedNanoseconds))
        switch entry.content {
        case .call: break
        case .sent(let header): add(header, from: .client, at: time)
        case .received(let header): add(header, from: .server, at: time)
        case .event(let event): add(event, at: time)
        }
    }

    private mutating func add(_ header: Recording.Header, from side: CapturedConnection.Side, at time: UInt64) {
        let link = link(of: header.session, at: time)
        if !links[link].isEstablished { establish(link, at: time) }
        if side == .client, let id = header.id {
            requests[id] = SentRequest(
                link: link,
                packet: file.packetCount + 1,
                description: "\(header.shownName) serial \(header.serial)"
            )
        }
        let output: SendBuffer
        do {
            output = try encode(header, from: side, on: link)
        } catch {
            return write(link, side, [.psh, .ack], at: time, ["not captured: \(header.summary): \(error.message)"])
        }
        let size = output.count
        room -= max(size, header.declaredCount)
        // Whole segments only: a dissector would look for a frame in the captured part of any other segment.
        let captured = size <= Self.maximumCapture ? size : 2 * Self.segmentSize
        let bytes = output.prefix(captured)
        for offset in stride(from: 0, to: size, by: Self.segmentSize) {
            let count = min(Self.segmentSize, size - offset)
            let isCut = captured < size && offset == 0
            write(
                link,
                side,
                [.psh, .ack],
                offset < captured ? Array(bytes[offset..<offset + count]) : [],
                size: count,
                at: time,
                isCut ? ["captured to \(captured) of \(size) bytes: \(header.summary)"] : []
            )
        }
    }

    private mutating func encode(
        _ header: Recording.Header,
        from side: CapturedConnection.Side,
        on link: Int
    ) throws(FrameError) -> SendBuffer {
        if header.isMalformed { throw FrameError(.malformed, "the received frame was malformed") }
        let count = header.declaredCount
        guard count <= Self.maximumEncoded else {
            throw FrameError(.illegalLength, "\(count) bytes are too many for a capture")
        }
        guard count <= room - (count <= Self.maximumSmallFrame ? 0 : roomOfSmallFrames) else {
            throw FrameError(.illegalLength, "the capture has no room left")
        }
        var codec = side == .client ? links[link].client : links[link].server
        let frame = header.frame(&padding, named: self.codec) { [layout = codec.base as? FrameLayout] in
            layout?.size(ofField: $0)
        }
        var output = SendBuffer()
        try codec.encode(frame, into: &output)
        if output.isEmpty { throw FrameError(.malformed, "the codec wrote no bytes for it") }
        codec.noteSent(frame)
        if side == .client { links[link].client = codec } else { links[link].server = codec }
        return output
    }

    private mutating func add(_ event: Recording.Event, at time: UInt64) {
        let text = event.line
        switch event.name {
        case "connection.connecting":
            // Several addresses may be tried in one attempt.
            if let attempt = attempt(of: event) { return log(text, attempt, at: time) }
            addAttempt(begin(Attempt(event), at: time, [text]))
        case "connection.securing", "connection.handshaking":
            let known = attempt(of: event)
            let link = known ?? begin(Attempt(event), at: time)
            if known == nil { addAttempt(link) }
            if links[link].isEstablished { log(text, link, at: time) } else { establish(link, at: time, [text]) }
        case "connection.ready":
            guard let session = event.session else { return log(text, at: time) }
            let link = link(of: session, at: time)
            if links[link].isEstablished { log(text, link, at: time) } else { establish(link, at: time, [text]) }
        case "link.ended", "attempt.failed": addEnd(event, at: time)
        default:
            if let session = event.session, let link = open[session] { return log(text, link, at: time) }
            let sent = event.request.flatMap { requests[$0] }
            let place = sent.map { ["the request was sent in packet \($0.packet): \($0.description)"] } ?? []
            log(text, sent?.link, at: time, place)
        }
    }

    private mutating func addEnd(_ event: Recording.Event, at time: UInt64) {
        let (text, phase) = (event.line, event.text("phase"))
        let cause = event.text("cause").flatMap { DisconnectCause(rawValue: $0) }
        var found = event.session.flatMap { open[$0] } ?? attempt(of: event)
        if found == nil, phase == DisconnectReport.Phase.resolving.rawValue { return log(text, at: time) }
        if found == nil { found = begin(Attempt(event), at: time) }
        guard let link = found else { return }
        links[link].isAttempt = false
        if let session = event.session { open[session] = nil }
        let isAttempt = phase == DisconnectReport.Phase.connecting.rawValue
        if !links[link].isEstablished, !isAttempt { establish(link, at: time) }

        let (side, isOrderly): (CapturedConnection.Side, Bool) =
            switch cause {
            case .closedByServer, .goAway, .handshakeRefused: (.server, true)
            case .refused, .reset: (.server, false)
            case .closedLocally: (.client, true)
            default: (.client, false)
            }
        guard isOrderly, links[link].isEstablished else { return write(link, side, [.rst, .ack], at: time, [text]) }
        let other: CapturedConnection.Side = side == .client ? .server : .client
        write(link, side, [.fin, .ack], at: time, [text])
        write(link, other, [.fin, .ack], at: time)
        write(link, side, [.ack], at: time)
    }

    private mutating func attempt(of event: Recording.Event) -> Int? {
        Self.latestAttempt(in: &attemptsByName[Attempt(event), default: []], of: links)
    }

    private mutating func addAttempt(_ link: Int) {
        links[link].isAttempt = true
        attempts.append(link)
        attemptsAtEndpoint[links[link].attempt.endpoint, default: []].append(link)
        attemptsByName[links[link].attempt, default: []].append(link)
    }

    private static func latestAttempt(in list: inout [Int], of links: [Link]) -> Int? {
        while let last = list.last, !links[last].isAttempt { list.removeLast() }
        return list.last
    }

    /// Returns the link of `session`. If it is new, it takes the place of the latest attempt at its endpoint.
    private mutating func link(of session: SessionID, at time: UInt64) -> Int {
        if let link = open[session] { return link }
        let endpoint = endpoints[session]
        let known =
            endpoint == nil
            ? Self.latestAttempt(in: &attempts, of: links)
            : Self.latestAttempt(in: &attemptsAtEndpoint[endpoint, default: []], of: links)
        let link = known ?? begin(Attempt(endpoint, nil), at: time)
        links[link].isAttempt = false
        open[session] = link
        return link
    }

    private mutating func begin(_ attempt: Attempt, at time: UInt64, _ comments: [String] = []) -> Int {
        let port = clientPorts[links.count % clientPorts.count]
        let connection = CapturedConnection(
            client: CapturedHost(address: Self.clientAddress, port: port),
            server: servers[attempt.endpoint]
        )
        let (client, server) = (LinkCodec(codec.base), LinkCodec(codec.serverSide()))
        links.append(Link(connection: connection, client: client, server: server, attempt: attempt))
        write(links.count - 1, .client, [.syn], at: time, comments)
        return links.count - 1
    }

    private mutating func establish(_ link: Int, at time: UInt64, _ comments: [String] = []) {
        links[link].isEstablished = true
        write(link, .server, [.syn, .ack], at: time)
        write(link, .client, [.ack], at: time, comments)
    }

    private mutating func write(
        _ link: Int,
        _ side: CapturedConnection.Side,
        _ flags: CapturedConnection.Flags,
        _ payload: [UInt8] = [],
        size: Int = 0,
        at time: UInt64,
        _ comments: [String] = []
    ) {
        let packet = links[link].connection.segment(from: side, flags, payload, size: size)
        let direction: PcapngWriter.Direction = side == .client ? .outbound : .inbound
        file.add(packet.bytes, size: packet.size, at: time, direction, comments: comments)
    }

    private mutating func log(_ text: String, _ link: Int? = nil, at time: UInt64, _ comments: [String] = []) {
        let log = CapturedHost(address: Self.clientAddress, port: Self.syslogPort)
        let source = link.map { links[$0].connection.client } ?? log
        let packet = CapturedPacket.datagram(
            from: source,
            to: log,
            Array("<134>trunkline: \(text)".utf8.prefix(60_000))
        )
        file.add(packet.bytes, size: packet.size, at: time, nil, comments: [text] + comments)
    }
}

private struct ServerAddresses {
    let ports: Set<UInt16>
    private let hosts: [String: CapturedHost]
    private let unknown: CapturedHost

    init(_ endpoints: [String], port: UInt16?) {
        var hosts: [String: CapturedHost] = [:]
        var unnamed: [String: [UInt8]] = [:]
        var first: CapturedHost?
        for text in endpoints where hosts[text] == nil {
            guard case .host(let name, let number)? = (try? Endpoint(parsing: text))?.target else { continue }
            var address = Self.address(name)
            if address == nil {
                // 10.0.0.2, and so on for other names.
                address = unnamed[name] ?? [10, 0, 0, UInt8(2 + unnamed.count % 250)]
                unnamed[name] = address
            }
            let host = CapturedHost(address: address ?? [10, 0, 0, 2], port: port ?? number)
            hosts[text] = host
            first = first ?? host
        }
        self.hosts = hosts
        unknown = first ?? CapturedHost(address: [10, 0, 0, 2], port: port ?? 7000)
        ports = Set(hosts.values.map(\.port) + [unknown.port])
    }

    /// The first server of the recording if `endpoint` is unknown.
    subscript(endpoint: String?) -> CapturedHost { endpoint.flatMap { hosts[$0] } ?? unknown }

    private static func address(_ host: String) -> [UInt8]? {
        let parts = host.split(separator: ".", omittingEmptySubsequences: false).map { UInt8(strict: $0) }
        let bytes = parts.compactMap { $0 }
        return parts.count == 4 && bytes.count == 4 ? bytes : nil
    }
}

extension Recording.Header {
    fileprivate var summary: String {
        let status = status != 0 || isErrorResponse ? " status \(status)" : ""
        return "\(kind) \(shownName) serial \(serial)\(status) (\(bodyCount) bytes)"
    }

    /// The text of a recording may contain any name.
    fileprivate var shownName: String { name?.escaped(upTo: 64) ?? "type 0x\(String(type, radix: 16))" }
}

extension Recording.Event {
    fileprivate var line: String { ([name] + fields.map { "\($0.name)=\($0.value)" }).joined(separator: " ") }
}

extension SendBuffer {
    fileprivate func prefix(_ length: Int) -> [UInt8] {
        // Safe: the pieces are valid during the call.
        unsafe withUnwritten(limit: .max) { pieces in
            var bytes: [UInt8] = []
            for index in pieces.indices where bytes.count < length {
                unsafe bytes.append(contentsOf: pieces[index].prefix(length - bytes.count))
            }
            return bytes
        }
    }
}
