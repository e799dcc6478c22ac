// A codec of your own, checked by the conformance kit; and one with a mistake, to see what the kit says.

import Trunkline
import TrunklineTesting

/// A length in two bytes, a serial number in two, then the body.
struct NoteCodec: FrameCodec, ServerSideCodec {
    var matching: ResponseMatching { .serial(1...0xFFFF) }
    var received = Frame.Kind.response
    var maximumBody = 1000
    /// The mistake: it is not looked at how long a body is.
    var trustsEveryLength = false

    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let length = input.integer(at: 0, as: UInt16.self) else { return nil }
        guard length <= maximumBody || trustsEveryLength else { throw FrameError(.illegalLength, "length \(length)") }
        input.await(4 + Int(length))
        guard input.skip(2), let serial = input.readInteger(as: UInt16.self), let body = input.readBytes(Int(length))
        else { return nil }
        return Frame(received, serial: SerialNumber(serial), body: body)
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        guard frame.body.count <= maximumBody else { throw FrameError(.illegalLength, "\(frame.body.count) bytes") }
        output.append(integer: UInt16(frame.body.count))
        output.append(integer: UInt16(truncatingIfNeeded: frame.serial))
        output.append(frame.body)
    }

    /// What the kit lets the codec talk to: it receives requests.
    func serverSide() -> any FrameCodec {
        var server = self
        server.received = .request
        return server
    }
}

let request = Frame(.request, serial: 7, body: "what?")
let samples: [CodecConformance.Sample] = [
    // Frames, with their bytes where they matter, and what they answer where the codec must know.
    .init(request, bytes: [0, 5, 0, 7] + Array("what?".utf8)),
    .init(Frame(.response, serial: 7, body: "that"), answering: request),
    .init(Frame(.response, serial: 0xFFFF)),
    // Bytes that must be refused as soon as they are there.
    .refused([0x03, 0xE9], with: .illegalLength),
]

// In a test: #expect(report.violations.isEmpty, "\(report)")
let report = CodecConformance(of: NoteCodec(), samples: samples, maximumFrameSize: 1004).check()
print("violations: \(report.violations.count); not checked: \(report.unchecked.count)")

let careless = CodecConformance(of: NoteCodec(trustsEveryLength: true), samples: samples, maximumFrameSize: 1004)
    .check()
print("rules that the careless one breaks: \(Set(careless.violations.map(\.ruleName)).sorted())")
for violation in careless.violations.prefix(2) { print(violation) }
print("Conformance: done")
