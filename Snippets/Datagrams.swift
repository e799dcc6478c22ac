// Requests in datagrams: DNS over UDP, and over TCP for answers that do not fit into a datagram.

import Trunkline
import TrunklineTesting

/// DNS messages (RFC 1035 §4): in a stream, a length of two bytes comes before each, and a datagram is one message.
///
/// A message begins with the serial number, two bytes of flags and four counts; the question follows. The body of a frame is
/// everything from the flags on, and the status of a response is its code (RCODE). Serial numbers are drawn at random, as RFC
/// 5452 §9.2 demands.
struct DNSCodec: DatagramCodec, ResponseCheckingCodec, SerialNumberingCodec, ServerSideCodec {
    var matching: ResponseMatching { .serial(1...65_535) }
    var isServer = false
    private var usesDatagrams = false

    init(isServer: Bool = false) { self.isServer = isServer }

    mutating func useDatagrams() { usesDatagrams = true }

    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        var size = input.count
        if !usesDatagrams {
            guard let length = input.readInteger(as: UInt16.self) else { return nil }
            size = Int(length)
        }
        guard size >= 12 else { throw FrameError(.illegalLength, "a message of \(size) bytes") }
        guard let serial = input.readInteger(as: UInt16.self), let body = input.readBytes(size - 2) else { return nil }
        var frame = Frame(isServer ? .request : .response, serial: UInt64(serial), body: body)
        frame.status = UInt32(body[1] & 0xf)
        return frame
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        guard (10...65_533).contains(frame.body.count) else {
            throw FrameError(.illegalLength, "a message of \(frame.body.count + 2) bytes")
        }
        if !usesDatagrams { output.append(integer: UInt16(frame.body.count + 2)) }
        output.append(integer: UInt16(truncatingIfNeeded: frame.serial))
        output.append(frame.body)
    }

    /// A response repeats the question. This tells it from a late one, and from one that somebody has made up.
    func check(_ response: Frame, against request: Frame) throws(FrameError) {
        let question = request.body.dropFirst(10)
        guard response.body.dropFirst(10).prefix(question.count).elementsEqual(question) else {
            throw FrameError(.responseMismatch, "the response is to another question")
        }
    }

    func serverSide() -> any FrameCodec { DNSCodec(isServer: true) }
}

extension Request {
    /// A question for the records of `type` of a name.
    static func dns(_ name: String, type: UInt8) throws(FrameError) -> Request {
        // Recursion is desired; one question.
        var body: [UInt8] = [1, 0, 0, 1, 0, 0, 0, 0, 0, 0]
        for label in name.split(separator: ".") {
            guard label.utf8.count <= 63 else { throw FrameError(.illegalLength, "a label of over 63 bytes") }
            body += [UInt8(label.utf8.count)] + Array(label.utf8)
        }
        return Request(body: Bytes(body + [0, 0, type, 0, 1]))
    }
}

extension Response {
    /// Whether the answer did not fit into a datagram, and only a part of it came.
    var isTruncated: Bool { body[0] & 2 != 0 }

    /// The number of records in the answer.
    var answerCount: Int { Int(body[4]) << 8 | Int(body[5]) }
}

/// A name server for UDP and TCP. The records of big.example do not fit into a datagram.
func answer(_ request: Frame, records: UInt8) -> Reaction {
    let isBig = request.body.count > 25 && records == 0
    var body = Array(request.body)
    (body[0], body[5]) = (0x80 | (isBig ? 2 : 0), isBig ? 0 : max(1, records))
    let record: [UInt8] = [0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 60, 0, 101, 100] + [UInt8](repeating: 0x61, count: 100)
    for _ in 0..<body[5] { body += record }
    return .reply(Frame(.response, body: Bytes(body)))
}
let overUDP = LoopbackServer.Options { $0.receivesDatagrams = true }
let datagramServer = try await LoopbackServer.start(speaking: DNSCodec(), options: overUDP) { answer($0, records: 0) }
let streamServer = try await LoopbackServer.start(speaking: DNSCodec()) { answer($0, records: 20) }

// Questions may be asked twice: a datagram without an answer is sent again after a second.
let options = ClientOptions { $0.requests.retry = .idempotent(tries: 3) }
let udp = Client(to: datagramServer.endpoint, speaking: DNSCodec(), options: options)
let tcp = Client(to: streamServer.endpoint, speaking: DNSCodec(), options: options)

/// Asks over UDP, and over TCP if the answer was cut.
func lookUp(_ name: String) async throws -> Response {
    let question = try Request.dns(name, type: 16)
    let answer = try await udp.send(question)
    return answer.isTruncated ? try await tcp.send(question) : answer
}
for name in ["a.example", "big.example"] {
    let answer = try await lookUp(name)
    print("\(name): \(answer.answerCount) records, \(answer.body.count + 2) bytes")
}

do {
    _ = try await udp.send(Request(body: Bytes([UInt8](repeating: 0, count: 2_000))))
} catch {
    print(error.code, error.fate)  // invalidRequest notSent: it does not fit into a datagram
}

// Several ways to one server, in the order of preference: when UDP does not get through, TCP is used, until it does again.
let withReturn = ClientOptions {
    $0.requests.retry = .idempotent(tries: 3)
    $0.failover.returnsToPreferredAfter = .seconds(60)
}
let servers = [datagramServer.endpoint, streamServer.endpoint]
let ladder = Client(to: servers, speaking: DNSCodec(), options: withReturn)
await datagramServer.stop()
print("over TCP: \(try await ladder.send(.dns("a.example", type: 16)).answerCount) records")

for client in [udp, tcp, ladder] { await client.close() }
await streamServer.stop()
print("Datagrams: done")
