// The protocols of the articles "Describing your protocol" and "Writing a codec by hand": each is described, spoken with a
// test server and checked by the conformance kit.

import Trunkline
import TrunklineTesting

// MARK: - A byte table as a layout

let acme: FrameLayout = {
    var layout = FrameLayout {
        Field.constant([0xCA, 0xFE])
        Field.type(UInt16.self)
        Field.serial(UInt32.self)
        Field.integer("flags", UInt8.self)
        Field.contentType(UInt8.self)
        Field.status(UInt16.self)
        Field.integer("wait", UInt16.self)
        Field.length(UInt32.self, counting: .body)
        Field.body
        Field.checksum(.crc32, over: .headerAndBody)
    }
    .roles {
        $0.ping = 0
        $0.push = 1
        $0.cancel = 2
        $0.part = .bit(0, of: "flags")
        $0.goAway = 3
        $0.retryAfter = .seconds(in: "wait")
        $0.success = 200
        $0.requests = 0x10...
        $0.serials = 50...
    }
    layout.maximumFrameSize = 1024 * 1024
    return layout
}()

/// Returns a list of names. The server sends it in parts, which `send` joins.
struct Names: TypedRequest {
    static let type: UInt32 = 0x10
    func encode() -> Bytes { "all" }
    static func decode(_ response: Response) -> [String] {
        String(response.body).split(separator: ",").map(String.init)
    }
}

let acmeServer = try await LoopbackServer.start(speaking: acme) { request in
    switch request.type {
    case 0x10: .parts(["ada,", "alan,"], then: .reply("grace"))
    case 0x11: .status(404, "no such name")
    default: .echo
    }
}
try await withClient(to: acmeServer.endpoint, speaking: acme) { client in
    print("acme: \(try await client.send(Names()).joined(separator: ", "))")
    do throws(ClientError) {
        _ = try await client.send(Request(type: 0x11))
    } catch {
        print("acme: \(error.code), fate \(error.fate), status \(error.response?.status ?? 0)")
    }
}
await acmeServer.stop()
print(acme.byteTable)

// A mistake in a layout that is put together at run time is thrown.
do throws(LayoutError) {
    _ = try FrameLayout(validating: [.type(UInt8.self), .body, .length(UInt16.self, counting: .body)])
} catch {
    print(error)  // field 3, length (2 bytes): the length must come before the body
}

// MARK: - Modbus/TCP

/// Modbus/TCP (Messaging on TCP/IP Implementation Guide V1.0b, section 3.1.3).
let modbus: FrameLayout = {
    var layout = FrameLayout {
        Field.serial(UInt16.self)
        Field.constant([0, 0])
        Field.length(UInt16.self, counting: .rest)
        Field.integer("unit", UInt8.self, default: 0xFF)
        Field.type(UInt8.self)
        Field.body
    }
    .roles {
        $0.failure = .bit(7)
        $0.failureCode = .body(UInt8.self)
        $0.serials = 0...
        $0.responsesRepeat = [.type, .field("unit")]
    }
    layout.maximumFrameSize = 260
    return layout
}()

/// Function 3 of the Modbus Application Protocol.
struct ReadHoldingRegisters: TypedRequest {
    static let type: UInt32 = 3
    var address: UInt16
    var count: UInt16
    var unit: UInt64 = 0xFF

    func encode() -> Bytes {
        var body = Bytes()
        body.append(integer: address)
        body.append(integer: count)
        return body
    }

    func prepare(_ request: inout Request) { request["unit"] = unit }

    static func decode(_ response: Response, for request: ReadHoldingRegisters) throws -> [UInt16] {
        // A byte count, then the registers.
        guard response.body.count == 1 + 2 * Int(request.count) else {
            throw FrameError(.responseMismatch, "\(response.body.count) bytes for \(request.count) registers")
        }
        return (0..<Int(request.count)).compactMap { response.body.integer(at: 1 + 2 * $0, as: UInt16.self) }
    }
}

// A server for this example, with a hundred registers, each of which holds its own address.
let modbusServer = try await LoopbackServer.start(speaking: modbus) { request in
    guard request.type == 3, let address = request.body.integer(at: 0, as: UInt16.self),
        let count = request.body.integer(at: 2, as: UInt16.self)
    else { return .status(1) }  // illegal function
    guard Int(address) + Int(count) <= 100 else { return .status(2) }  // illegal data address
    var body: Bytes = [UInt8(2 * count)]
    for register in address..<address + count { body.append(integer: register) }
    return .reply(body)
}
try await withClient(to: modbusServer.endpoint, speaking: modbus) { client in
    let registers = try await client.send(ReadHoldingRegisters(address: 40, count: 3))
    print("Modbus: \(registers)")
    do throws(ClientError) {
        _ = try await client.send(ReadHoldingRegisters(address: 99, count: 2))
    } catch {
        print("Modbus: \(error.code), exception \(error.response?.status ?? 0)")
    }
}
await modbusServer.stop()

// MARK: - DNS over TCP

/// One question: the name servers of the root.
let rootQuestion: Bytes = [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1]

/// DNS over TCP (RFC 1035 §4.1.1 and §4.2.2).
let dns = FrameLayout {
    Field.length(UInt16.self, counting: .rest)
    Field.serial(UInt16.self)
    Field.integer("flags", UInt16.self, default: 0x0100)
    Field.body(sizes: 8...)
}
.roles {
    $0.heartbeat = Frame(.request, body: rootQuestion)
    $0.response = .bit(15, of: "flags")
    $0.failure = .bits(0..<4, of: "flags")
    $0.serials = 16...
}

/// A question for the addresses of a name. The response is the rest of the message, after its flags.
struct AddressQuery: TypedRequest {
    static let type: UInt32 = 0
    let name: String

    func encode() -> Bytes {
        var body: Bytes = [0, 1, 0, 0, 0, 0, 0, 0]  // one question, no other records
        for label in name.split(separator: ".") { body += [UInt8(label.utf8.count)] + Bytes(String(label)) }
        return body + [0, 0, 1, 0, 1]  // the root; type A, class IN
    }

    static func decode(_ response: Response) -> Bytes { response.body }
}

// A server for this example, which knows one name and echoes its question.
let known = AddressQuery(name: "example.com").encode()
let dnsServer = try await LoopbackServer.start(speaking: dns) { query in
    query.body == known ? .echo : .status(3, query.body)  // 3: no such name
}
try await withClient(to: dnsServer.endpoint, speaking: dns) { client in
    let answer = try await client.send(AddressQuery(name: "example.com"))
    print("DNS: \(answer.count) bytes")
    do throws(ClientError) {
        _ = try await client.send(AddressQuery(name: "example.invalid"))
    } catch {
        print("DNS: \(error.code), result code \(error.response?.status ?? 0)")
    }
}
await dnsServer.stop()

// MARK: - NATS

/// NATS (docs.nats.io, Client Protocol), in which everything that the server sends is a push.
let nats = CountedPayloadCodec(payloadEnd: "\r\n") { head in
    head.hasPrefix("MSG ") ? .count(inWord: -1, of: head) : .absent
}
.requests { head in
    head.hasPrefix("PUB ") ? .count(inWord: -1, of: head) : .absent
}
.heartbeat(ping: "PING", pong: "PONG")
.reading { frame in frame.kind = .push }

// A server for this example, which speaks first and sends every message back.
let natsOptions = LoopbackServer.Options { $0.onConnect = .push(Frame(.push, head: "INFO {}")) }
let natsServer = try await LoopbackServer.start(speaking: nats, options: natsOptions) { message in
    if message.head.hasPrefix("CONNECT ") { return .push(Frame(.push, head: "+OK")) }
    return .push(Frame(.push, head: "MSG news 1 \(message.body.count)", body: message.body))
}
let natsClientOptions = ClientOptions { options in
    options.handshake.perform = { handshaker in
        _ = try await handshaker.nextMessage()  // INFO
        try await handshaker.post(Request(head: #"CONNECT {"verbose":true,"pedantic":false}"#))
        let answer = try await handshaker.nextMessage()
        guard answer.head == "+OK" else { throw HandshakeRefusal("NATS: \(String(answer.head).prefix(80))") }
    }
}
try await withClient(to: natsServer.endpoint, speaking: nats, options: natsClientOptions) { client in
    let messages = client.pushes(where: { $0.head.hasPrefix("MSG ") })
    try await client.connect()
    try await client.post(Request(head: "PUB news 5", body: "hello"))
    for await message in messages.messages.prefix(1) { print("NATS: \(String(message.body))") }
}
await natsServer.stop()

// MARK: - A codec with named fields

/// Frames with optional fields in the header, which no layout can describe.
///
/// | size | field |
/// |---|---|
/// | 2 | length of everything after it |
/// | 2 | serial; 0 for a push |
/// | 1 | flags; bit 0: a deadline follows; bit 1: a trace ID follows |
/// | 0 or 4 | deadline in milliseconds: `frame["deadline"]` |
/// | 0 or 8 | trace ID: `frame[bytes: "trace"]` |
/// | n | body |
struct TracedCodec: FrameCodec, FieldDefaultsCodec, ServerSideCodec {
    var matching: ResponseMatching { .serial(1...0xFFFF) }
    /// The kind of frames with a serial, as their receiver sees them.
    var received = Frame.Kind.response
    var maximumLength = 4096
    /// Sent in frames of this link that do not set the field themselves.
    var trace: Bytes?

    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let length = input.integer(at: 0, as: UInt16.self) else { return nil }
        guard length >= 3 else { throw FrameError(.illegalLength, "length \(length)") }
        guard length <= maximumLength else { throw FrameError(exceedingLimit: "\(length) of \(maximumLength) bytes") }
        input.await(2 + Int(length))
        guard input.count >= 2 + Int(length), input.skip(2), let serial = input.readInteger(as: UInt16.self),
            let flags = input.readInteger(as: UInt8.self)
        else { return nil }
        guard flags < 4 else { throw FrameError(.malformed, "unknown flags \(flags)") }
        let fields = (flags & 1 != 0 ? 4 : 0) + (flags & 2 != 0 ? 8 : 0)
        guard fields <= Int(length) - 3 else { throw FrameError(.illegalLength, "no room for the fields") }
        var frame = Frame(serial == 0 && received == .response ? .push : received, serial: SerialNumber(serial))
        if flags & 1 != 0 { frame["deadline"] = input.readInteger(as: UInt32.self).map { UInt64($0) } }
        if flags & 2 != 0 { frame[bytes: "trace"] = input.readBytes(8) }
        guard let body = input.readBytes(Int(length) - 3 - fields) else { return nil }
        frame.body = body
        return frame
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        let (deadline, trace) = (frame["deadline"], frame[bytes: "trace"] ?? trace)
        guard deadline ?? 0 <= UInt32.max, trace?.count ?? 8 == 8 else {
            throw FrameError(.malformed, "the deadline has 4 bytes, the trace ID 8")
        }
        let length = 3 + (deadline == nil ? 0 : 4) + (trace == nil ? 0 : 8) + frame.body.count
        guard length <= maximumLength else { throw FrameError(exceedingLimit: "\(length) of \(maximumLength) bytes") }
        output.append(integer: UInt16(length))
        output.append(integer: UInt16(truncatingIfNeeded: frame.serial))
        output.append((deadline == nil ? 0 : 1) | (trace == nil ? 0 : 2) as UInt8)
        if let deadline { output.append(integer: UInt32(deadline)) }
        if let trace { output.append(trace) }
        output.append(frame.body)
    }

    mutating func setDefaults(from frame: Frame) throws(FrameError) {
        guard let value = frame[bytes: "trace"], value.count == 8 else {
            throw FrameError(.malformed, "only a trace ID of 8 bytes can be a default")
        }
        trace = value
    }

    func serverSide() -> any FrameCodec { TracedCodec(received: .request, maximumLength: maximumLength) }
}

let tracedServer = try await LoopbackServer.start(speaking: TracedCodec()) { request in
    request.body == "hello" ? .reply("trace-01") : .echo
}
let options = ClientOptions { options in
    options.handshake.perform = { link in
        let answer = try await link.send(Request(body: "hello"))
        try await link.setDefault("trace", to: answer.body)
    }
}
try await withClient(to: tracedServer.endpoint, speaking: TracedCodec(), options: options) { client in
    var request = Request(body: "work")
    request["deadline"] = 250
    let response = try await client.send(request)
    print("traced: \(response["deadline"] ?? 0) ms, \(response[bytes: "trace"].map { String($0) } ?? "none")")
}
await tracedServer.stop()

// MARK: - Two modes, and replies without a length

/// A gauge. The first line is text: `BIN`, which the gauge answers with `OK`. After that a request is one byte, the number
/// of registers to read, and the reply is as many bytes as that.
struct GaugeCodec: FrameCodec, SentFrameCodec, ServerSideCodec {
    var isServer = false
    var isBinary = false
    /// The lengths of the replies that are due to this client.
    var lengths: [Int] = []

    var matching: ResponseMatching { .inOrder }

    func serverSide() -> any FrameCodec { GaugeCodec(isServer: true) }

    mutating func noteSent(_ frame: Frame) {
        if isServer {
            isBinary = true  // its answer to the line of text was sent
        } else if isBinary, let count = frame.body.first {
            lengths.append(Int(count))
        }
    }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard isBinary else {
            guard let end = input.firstOffset(of: UInt8(ascii: "\n")) else {
                guard input.count < 16 else { throw FrameError(.malformed, "no end of line") }
                return nil
            }
            guard end < 16, let line = input.readBytes(end), input.skip(1) else {
                throw FrameError(.malformed, "a line of \(end) bytes")
            }
            if !isServer { isBinary = true }
            return Frame(isServer ? .request : .response, body: line)
        }
        if isServer { return input.readBytes(1).map { Frame(.request, body: $0) } }
        guard let length = lengths.first else { throw FrameError(.malformed, "a reply without a request") }
        guard let body = input.readBytes(length) else { return nil }
        lengths.removeFirst()
        return Frame(.response, body: body)
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        output.append(frame.body)
        if isBinary {
            guard isServer || frame.body.count == 1 && frame.body.first != 0 else {
                throw FrameError(.malformed, "a request is one byte, at least 1")
            }
        } else {
            guard frame.body.count < 16, !frame.body.contains(UInt8(ascii: "\n")) else {
                throw FrameError(.malformed, "not a line of at most 15 bytes")
            }
            output.append(UInt8(ascii: "\n"))
        }
    }
}

let gaugeServer = try await LoopbackServer.start(speaking: GaugeCodec()) { request in
    if request.body == "BIN" { return .reply(Frame(.response, body: "OK")) }
    return .reply(Frame(.response, body: Bytes((0..<(request.body.first ?? 1)).map { $0 })))
}
let gaugeOptions = ClientOptions { options in
    options.handshake.perform = { link in _ = try await link.send(Request(body: "BIN")) }
}
try await withClient(to: gaugeServer.endpoint, speaking: GaugeCodec(), options: gaugeOptions) { client in
    async let three = client.send(Request(body: [3]))
    async let five = client.send(Request(body: [5]))
    print("gauge: \(try await Array(three.body)) \(try await Array(five.body))")
}
await gaugeServer.stop()

// MARK: - Checking them

var traced = Frame(.request, serial: 7, body: "what?")
traced["deadline"] = 250
traced[bytes: "trace"] = "trace-01"
let plain = Frame(.request, serial: 8, body: "what?")
let tracedSamples: [CodecConformance.Sample] = [
    // Frames, and the bytes that they must become.
    .init(traced, bytes: [0, 20, 0, 7, 3, 0, 0, 0, 250] + Array("trace-01what?".utf8)),
    .init(plain, bytes: [0, 8, 0, 8, 0] + Array("what?".utf8)),
    .init(Frame(.response, serial: 8, body: "that"), answering: plain),
    // Bytes, and the frames that they must become.
    .bytes([0, 4, 0, 0, 0, 0x21], are: [Frame(.push, body: "!")]),
    // Bytes that must be rejected as soon as they have arrived.
    .refused([0x10, 0x01], with: .illegalLength),
    .refused([0x10, 0x01], with: .illegalLength, receivedBy: .server),
    .refused([0, 3, 0, 7, 4], with: .malformed),
]
let tracedReport = CodecConformance(of: TracedCodec(), samples: tracedSamples, maximumFrameSize: 4098).check()
print("TracedCodec: \(tracedReport)")

/// The example of the specification (Modbus Application Protocol V1.1b3, section 6.3), and an exception.
let read = Frame(.request, type: 3, serial: 0x1501, body: [0x00, 0x6B, 0x00, 0x03])
let registers: Bytes = [0x06, 0x02, 0x2B, 0x00, 0x00, 0x00, 0x64]
let modbusSamples: [CodecConformance.Sample] = [
    .init(read, bytes: [0x15, 0x01, 0, 0, 0, 6, 0xFF, 3, 0x00, 0x6B, 0x00, 0x03]),
    .init(Frame(.response, type: 3, serial: 0x1501, body: registers), answering: read),
    .bytes(
        [0x15, 0x01, 0, 0, 0, 3, 0xFF, 0x83, 2],
        are: [Frame(.response, type: 3, serial: 0x1501, status: 2, isErrorResponse: true, body: [2])],
        answering: [read]
    ),
    .refused([0x15, 0x01, 0, 1], with: .unexpectedBytes),
    .refused([0x15, 0x01, 0, 0, 0, 0xFF], with: .illegalLength, receivedBy: .server),
]
let modbusReport = CodecConformance(of: modbus, samples: modbusSamples).check()
print("Modbus: \(modbusReport)")

let registersRead = Frame(.request, body: [3])
let binary: [CodecConformance.Preamble] = [
    .sent(Frame(.request, body: "BIN")), .received(Frame(.response, body: "OK")),
]
var gaugeCheck = CodecConformance(
    of: GaugeCodec(),
    samples: [
        .init(Frame(.request, body: "BIN")),
        .init(registersRead).after(binary),
        .bytes([7, 8, 9], are: [Frame(.response, body: [7, 8, 9])], answering: [registersRead]).after(binary),
    ],
    maximumFrameSize: 255
)
gaugeCheck.bodiesAreOpaque = false
let gaugeReport = gaugeCheck.check()
print("GaugeCodec: \(gaugeReport)")

print("ProtocolGallery: done")
