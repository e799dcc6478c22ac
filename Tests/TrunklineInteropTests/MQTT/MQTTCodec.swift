import Trunkline

// MARK: - The protocol

/// A codec for MQTT 3.1.1 (OASIS standard, 2014) with QoS 0 and 1.
///
/// |             | in the packet                                    | in the frame                    |
/// |-------------|--------------------------------------------------|---------------------------------|
/// | type, flags | first byte                                       | `type`                          |
/// | length      | 1 to 4 bytes, seven bits in each, lowest first   | not present                     |
/// | packet ID   | after the length, or after the topic of PUBLISH  | `serial`                        |
/// | return code | in CONNACK and SUBACK                            | `status`                        |
/// | the rest    | before and after the packet ID                   | `body`                          |
struct MQTTCodec: FrameCodec, HeartbeatCodec, ClosingCodec, SentFrameCodec, ServerSideCodec {
    /// The most bytes of a packet in either direction, without its first two to five. MQTT itself allows 256 MiB.
    var maximumLength = 1 << 20
    /// The serial of the CONNECT that was sent, for the CONNACK, which has no packet ID.
    private var connectSerial: SerialNumber = 0
    private var isServer = false

    /// Packet IDs are 16 bits wide and never zero [MQTT-2.3.1-1].
    var matching: ResponseMatching { .serial(1...65535) }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let first = input.byte(at: 0) else { return nil }
        guard let packet = MQTT.Packet(type: UInt32(first)), packet.isSent(byServer: !isServer) else {
            throw FrameError(.unknownType, "a packet that begins with 0x\(String(first, radix: 16))")
        }
        guard let (value, width) = try input.varint(at: 1, maximumWidth: 4) else { return nil }
        guard value <= maximumLength, width == 1 || value >> (7 * (width - 1)) > 0 else {
            throw FrameError(.illegalLength, "a packet of \(value) bytes, or a length that is not minimal")
        }
        let length = Int(value)
        input.await(1 + width + length)
        guard input.count >= 1 + width + length, input.skip(1 + width) else { return nil }

        var frame = Frame(isServer && packet.kind != .ping ? .request : packet.kind, type: UInt32(first))
        // The bytes before the packet ID, the packet ID, and the bytes after it.
        let topicLength = packet == .publish ? input.integer(at: 0, as: UInt16.self).map { 2 + Int($0) } : 0
        let idLength = packet.hasID(frame.type) ? 2 : 0
        guard let topicLength, topicLength + idLength <= length, let topic = input.readBytes(topicLength),
            let id = idLength == 2 ? input.readInteger(as: UInt16.self) : 0,
            let rest = input.readBytes(length - topicLength - idLength)
        else { throw FrameError(.illegalLength, "\(packet) of invalid length \(length)") }
        guard idLength == 0 || id != 0 else { throw FrameError(.malformed, "\(packet) with the packet id 0") }
        frame.serial = SerialNumber(id)
        frame.body = topic.isEmpty ? rest : Bytes(Array(topic) + Array(rest))

        guard packet.mayHold(frame.body) else { throw FrameError(.malformed, "\(packet) with \(frame.body)") }
        if packet == .connack {
            guard connectSerial != 0 else { throw FrameError(.malformed, "CONNACK without CONNECT") }
            (frame.serial, connectSerial) = (connectSerial, 0)
            frame.status = UInt32(rest[1])
        } else if packet == .suback {
            frame.status = UInt32(rest.max() ?? 0)
        }
        frame.isErrorResponse = packet == .connack ? frame.status != 0 : frame.status == 0x80
        return frame
    }

    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        guard let packet = MQTT.Packet(type: frame.type), packet.isSent(byServer: isServer) else {
            throw FrameError(.unknownType, "this side does not send packets of type 0x\(String(frame.type, radix: 16))")
        }
        let hasID = packet.hasID(frame.type)
        let id = frame.serial
        guard !hasID || 1...65535 ~= id else { throw FrameError(.malformed, "\(packet) has a response: use send") }
        guard hasID || id == 0 || packet != .publish else {
            throw FrameError(.malformed, "QoS 0 has no response: use post")
        }
        guard packet.mayHold(frame.body) else { throw FrameError(.malformed, "\(packet) with \(frame.body)") }
        let length = frame.body.count + (hasID ? 2 : 0)
        guard length <= min(maximumLength, 268_435_455) else {
            throw FrameError(.illegalLength, "a packet of \(length) bytes")
        }
        output.append(UInt8(frame.type))
        output.append(varint: UInt64(length))
        guard hasID else { return output.append(frame.body) }
        let idOffset = packet == .publish ? MQTT.topicLength(frame.body) ?? 0 : 0
        output.append(frame.body.prefix(idOffset))
        output.append(integer: UInt16(id))
        output.append(frame.body.dropFirst(idOffset))
    }

    mutating func noteSent(_ frame: Frame) {
        if frame.type == MQTT.Packet.connect.rawValue { connectSerial = frame.serial }
    }

    func ping(number: UInt64) -> Frame? { isServer ? nil : Frame(.ping, type: MQTT.Packet.ping.rawValue) }
    func pong(answering ping: Frame) -> Frame? { isServer ? Frame(.pong, type: MQTT.Packet.pong.rawValue) : nil }
    /// Without this frame the broker publishes the client's will.
    func closingFrame() -> Frame? { isServer ? nil : Frame(.request, type: MQTT.Packet.disconnect.rawValue) }

    func serverSide() -> any FrameCodec { MQTTCodec(maximumLength: maximumLength, isServer: true) }
}

// MARK: - The packets

enum MQTT {
    /// The packets by their first byte: the type in the upper half, and flags in the lower half. Only PUBLISH has
    /// variable flags.
    enum Packet: UInt32 {
        case connect = 0x10, connack = 0x20, publish = 0x30, puback = 0x40, subscribe = 0x82, suback = 0x90
        case unsubscribe = 0xA2, unsuback = 0xB0, ping = 0xC0, pong = 0xD0, disconnect = 0xE0

        /// The flags of PUBLISH: 8 for a repetition, 2 for QoS 1, 1 for a retained message. QoS 2 is not supported.
        init?(type: UInt32) { self.init(rawValue: type & 0xF4 == 0x30 ? 0x30 : type) }

        func hasID(_ type: UInt32) -> Bool {
            switch self {
            case .publish: type & 2 != 0
            case .puback, .subscribe, .suback, .unsubscribe, .unsuback: true
            case .connect, .connack, .ping, .pong, .disconnect: false
            }
        }

        func mayHold(_ body: Bytes) -> Bool {
            switch self {
            case .publish: MQTT.topicLength(body).map { MQTT.isTopic(body.prefix($0).dropFirst(2)) } ?? false
            case .connack: body.count == 2
            case .suback: !body.isEmpty && body.allSatisfy { $0 <= 1 || $0 == 0x80 }
            case .connect, .subscribe, .unsubscribe: true
            case .puback, .unsuback, .ping, .pong, .disconnect: body.isEmpty
            }
        }

        /// The broker sends responses, the client sends the rest, and both send messages and their acknowledgements.
        func isSent(byServer: Bool) -> Bool {
            self == .publish || self == .puback || byServer == (kind == .response || kind == .pong)
        }

        /// The kind of frame for the client. For the broker everything except pings is a request.
        var kind: Frame.Kind {
            switch self {
            case .publish: .push
            case .connack, .puback, .suback, .unsuback: .response
            case .connect, .subscribe, .unsubscribe, .disconnect: .request
            case .ping: .ping
            case .pong: .pong
            }
        }
    }

    /// How the client identifies itself to the broker.
    struct Session: Sendable {
        var clientID: String
        var login: (userName: String, password: String)?
        /// Whether the broker discards the client's subscriptions and the messages for it when a link ends.
        var isClean = true
        /// The broker ends a link on which it receives nothing for one and a half times this number of seconds.
        var keepAlive: UInt16 = 60
        /// The message that the broker publishes when a link ends without a DISCONNECT.
        var will: Message?
    }

    struct Message: Sendable, Equatable {
        var topic: String
        var payload: Bytes
        /// Whether the message is acknowledged and may arrive twice (QoS 1). Otherwise it is QoS 0.
        var isAcknowledged = true
        /// For a publisher: whether the broker keeps the message for later subscribers. For a subscriber: whether it
        /// was kept.
        var isRetained = false
    }

    /// Whether `name` may be published to. Wildcards are only for subscriptions.
    static func isTopic(_ name: some Collection<UInt8>) -> Bool {
        !name.isEmpty && !name.contains { "+#\0".utf8.contains($0) } && String(validating: name, as: UTF8.self) != nil
    }

    /// The size of the topic at the front of a message, including its length; `nil` if it is longer than the body.
    fileprivate static func topicLength(_ body: Bytes) -> Int? {
        guard body.count >= 2 else { return nil }
        let length = 2 + Int(body[0]) * 256 + Int(body[1])
        return length <= body.count ? length : nil
    }

    /// Text or bytes in the form that packets use: after their length.
    fileprivate static func field(_ bytes: some Collection<UInt8>) -> [UInt8] {
        precondition(bytes.count <= UInt16.max, "an MQTT field has at most 65,535 bytes, not \(bytes.count)")
        return [UInt8(bytes.count >> 8), UInt8(bytes.count & 0xFF)] + bytes
    }
}

extension Request {
    static func connect(_ session: MQTT.Session) -> Request {
        var flags: UInt8 = session.isClean ? 0x02 : 0
        var body = MQTT.field(session.clientID.utf8)
        if let will = session.will {
            flags |= 0x04 | (will.isAcknowledged ? 0x08 : 0) | (will.isRetained ? 0x20 : 0)
            body += MQTT.field(will.topic.utf8) + MQTT.field(will.payload)
        }
        if let login = session.login {
            flags |= 0xC0
            body += MQTT.field(login.userName.utf8) + MQTT.field(login.password.utf8)
        }
        let keepAlive = [UInt8(session.keepAlive >> 8), UInt8(session.keepAlive & 0xFF)]
        let head = MQTT.field("MQTT".utf8) + [4, flags] + keepAlive  // 4 is the version 3.1.1
        return Request(type: MQTT.Packet.connect.rawValue, body: Bytes(head + body))
    }

    /// A message to publish: use `send` for QoS 1 and `post` for QoS 0.
    static func publish(_ message: MQTT.Message) -> Request {
        let flags: UInt32 = (message.isAcknowledged ? 2 : 0) + (message.isRetained ? 1 : 0)
        let topic = MQTT.field(message.topic.utf8)
        return Request(type: MQTT.Packet.publish.rawValue + flags, body: Bytes(topic + message.payload))
    }

    /// A request for the messages whose topics match `filter`. Pass it to `client.subscribe`, which repeats it on every
    /// link.
    static func subscribe(to filter: String, acknowledged: Bool = true) -> Request {
        Request(type: MQTT.Packet.subscribe.rawValue, body: Bytes(MQTT.field(filter.utf8) + [acknowledged ? 1 : 0]))
    }

    static func unsubscribe(from filter: String) -> Request {
        Request(type: MQTT.Packet.unsubscribe.rawValue, body: Bytes(MQTT.field(filter.utf8)))
    }
}

extension MQTT.Message {
    /// The message in a push.
    init(_ push: PushMessage) {
        let length = MQTT.topicLength(push.body) ?? 0
        topic = String(Bytes(push.body.prefix(length).dropFirst(2)))
        payload = Bytes(push.body.dropFirst(length))
        isAcknowledged = push.serial != 0
        isRetained = push.type & 1 != 0
    }
}

extension Client {
    /// Tells the broker that the message in `push` was processed. Otherwise the broker sends it again on the next link.
    func acknowledge(_ push: PushMessage) async throws(ClientError) {
        guard push.serial != 0 else { return }  // QoS 0
        try await post(Request(type: MQTT.Packet.puback.rawValue), answering: push)
    }
}

extension ClientOptions {
    /// Logs in on every new link, and keeps the link alive for the broker.
    mutating func speakMQTT(as session: MQTT.Session) {
        handshake.perform = { link in
            do {
                let answer = try await link.send(.connect(session))
                if answer.body.first == 1 { await link.keepSubscriptions() }  // the broker kept the session
            } catch let error as ClientError where error.code == .rejected {
                let code = error.response?.status ?? 0  // 3 is temporary
                let reasons: [UInt32: String] = [1: "version", 2: "client id", 3: "unavailable", 4: "password"]
                throw HandshakeRefusal(reasons[code] ?? "not authorized", isPermanent: code != 3)
            }
        }
        if session.keepAlive > 0 { liveness.speakAfter = .seconds(session.keepAlive) / 2 }
    }
}
