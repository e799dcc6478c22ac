// Checking a codec with the conformance kit. A second check, of a codec with a mistake, shows what the kit reports.

import Trunkline
import TrunklineTesting

/// Frames with a length (2 bytes), a serial number (2 bytes) and a body.
struct NoteCodec: FrameCodec, ServerSideCodec {
    var matching: ResponseMatching { .serial(1...0xFFFF) }
    var received = Frame.Kind.response
    var maximumBody = 1000

    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let length = input.integer(at: 0, as: UInt16.self) else { return nil }
        guard length <= maximumBody else { throw FrameError(exceedingLimit: "\(length) of \(maximumBody) bytes") }
        input.await(4 + Int(length))
        guard input.skip(2), let serial = input.readInteger(as: UInt16.self), let body = input.readBytes(Int(length))
        else { return nil }
        return Frame(received, serial: SerialNumber(serial), body: body)
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        guard frame.body.count <= maximumBody else { throw FrameError(exceedingLimit: "over \(maximumBody) bytes") }
        output.append(integer: UInt16(frame.body.count))
        output.append(integer: UInt16(truncatingIfNeeded: frame.serial))
        output.append(frame.body)
    }

    /// The codec that the kit uses as the peer: it receives requests.
    func serverSide() -> any FrameCodec {
        var server = self
        server.received = .request
        return server
    }
}

let request = Frame(.request, serial: 7, body: "what?")
let samples: [CodecConformance.Sample] = [
    // Frames, with their bytes where these matter, and with the request that they answer.
    .init(request, bytes: [0, 5, 0, 7] + Array("what?".utf8)),
    .init(Frame(.response, serial: 7, body: "that"), answering: request),
    .init(Frame(.response, serial: 0xFFFF)),
    // Bytes that must be refused as soon as they arrive.
    .refused([0x03, 0xE9], with: .illegalLength),
]

// In a test: #expect(report.violations.isEmpty, "\(report)")
let report = CodecConformance(of: NoteCodec(), samples: samples, maximumFrameSize: 1004).check()
print("violations: \(report.violations.count); not checked: \(report.unchecked.count)")

// The mistake: this codec accepts every length.
let careless = CodecConformance(of: NoteCodec(maximumBody: 0xFFFF), samples: samples, maximumFrameSize: 1004).check()
print("rules that the careless codec breaks: \(Set(careless.violations.map(\.ruleName)).sorted())")
for violation in careless.violations.prefix(2) { print(violation) }
print("Conformance: done")
