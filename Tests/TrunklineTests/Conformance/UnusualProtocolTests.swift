import Testing
import Trunkline
import TrunklineTesting

/// The kit and protocols whose first frames differ, which ignore frames, whose serials are not on the wire, or that have
/// channels.
@Suite struct UnusualProtocolTests {}

extension UnusualProtocolTests {
    private static let hello: [CodecConformance.Preamble] = [
        .sent(Frame(.request, body: "HELLO 2")), .received(Frame(.response, body: "OK")),
    ]

    private func check(
        _ codec: ModeCodec,
        _ samples: [CodecConformance.Sample],
        _ change: (inout CodecConformance) -> Void = { _ in }
    ) -> CodecConformance.Report {
        var kit = CodecConformance(of: codec, samples: samples, maximumFrameSize: 300)
        kit.relaxed = ModeCodec(maximum: 600, mistake: codec.mistake)
        kit.bodiesAreOpaque = false
        change(&kit)
        return kit.check()
    }

    /// The greeting is text. After it, frames have lengths.
    private var samples: [CodecConformance.Sample] {
        let request = Frame(.request, body: "a\nb")
        return [
            .init(Frame(.request, body: "HELLO 2")),
            .init(Frame(.response, body: "OK"), answering: Frame(.request, body: "HELLO 2")),
            CodecConformance.Sample(request).after(Self.hello),
            CodecConformance.Sample(Frame(.response, body: "c\n"), answering: request).after(Self.hello),
        ]
    }

    @Test func bothModesAreChecked() {
        let report = check(ModeCodec(), samples)
        #expect(report.violations.isEmpty, "\(report)")
    }

    /// Without the preamble, the second mode is never reached.
    @Test func aSampleOfTheOtherModeFailsWithoutItsPreamble() {
        let report = check(ModeCodec(), [.init(Frame(.request, body: "a\nb"))])
        #expect(!report.violations.isEmpty)
    }

    @Test func aMistakeInTheSecondModeIsFound() {
        for mistake in [ModeCodec.Mistake.losesBytes, .sharesState] {
            let report = check(ModeCodec(mistake: mistake), samples)
            #expect(!report.violations.isEmpty, "\(mistake)")
            #expect(report.violations.allSatisfy { !$0.message.contains("preamble") }, "\(report)")
        }
    }

    @Test func aPreambleThatCannotBeSentIsReported() {
        let report = check(
            ModeCodec(),
            [CodecConformance.Sample(Frame(.request, body: "a")).after([.receivedBytes([1, 2, 3])])]
        )
        let messages = report.violations.map(\.message)
        #expect(
            messages.contains { $0.hasPrefix("the preamble of sample 1 cannot be sent and received: ") },
            "\(report)"
        )
    }

    @Test func framesToBeIgnoredAreLeftOut() {
        let request = Frame(.request, body: "x")
        // Two empty frames stand for "still busy".
        let bytes: [UInt8] = [0, 0, 2, UInt8(ascii: "o"), UInt8(ascii: "k"), 0]
        let answer = Frame(.response, body: "ok")
        let sample = CodecConformance.Sample.bytes(bytes, are: [answer], answering: [request]).after(Self.hello)
        #expect(!check(ModeCodec(), [sample]).violations.isEmpty)
        let report = check(ModeCodec(), [sample]) { $0.ignoredFrames = { $0.kind == .pong } }
        #expect(report.violations.isEmpty, "\(report)")
    }

    @Test func serialsThatAreNotOnTheWireAreNotCompared() {
        let request = Frame(.request, serial: 7, body: "a")
        let samples: [CodecConformance.Sample] = [
            CodecConformance.Sample(request).after(Self.hello),
            CodecConformance.Sample(Frame(.response, serial: 7, body: "b"), answering: request).after(Self.hello),
        ]
        let codec = ModeCodec(matching: .serial(1...9))
        #expect(!check(codec, samples).violations.isEmpty)
        let report = check(codec, samples) { $0.transmitsSerials = false }
        #expect(report.violations.isEmpty, "\(report)")
        let broken = ModeCodec(matching: .serial(1...9), mistake: .losesSerial)
        #expect(!check(broken, samples) { $0.transmitsSerials = false }.violations.isEmpty)
    }

    @Test func aResponseOnAnotherChannelIsFound() {
        let request = Frame(.request, body: "a")
        let sample = CodecConformance.Sample(Frame(.response, body: "b"), answering: request).after(Self.hello)
        var codec = ModeCodec(matching: .inOrderByChannel)
        #expect(check(codec, [sample]).violations.isEmpty)
        codec.mistake = .losesChannel
        let report = check(codec, [sample])
        #expect(report.violations.contains { $0.message.hasSuffix("is on channel 1; expected 0") }, "\(report)")
    }
}

/// A greeting in lines of text, and then frames of one byte with the length of the body that follows.
private struct ModeCodec: FrameCodec, SentFrameCodec, ServerSideCodec, ChannelCodec {
    enum Mistake { case none, losesBytes, sharesState, losesChannel, losesSerial }

    final class Shared: @unchecked Sendable {  // what the mistake is about; each check runs on one thread
        var count = 0
    }

    var matching = ResponseMatching.inOrder
    var maximum = 300
    var mistake = Mistake.none
    var isServer = false
    var isBinary = false
    var serial: SerialNumber = 0
    let shared = Shared()

    init(matching: ResponseMatching = .inOrder, maximum: Int = 300, mistake: Mistake = .none) {
        (self.matching, self.maximum, self.mistake) = (matching, maximum, mistake)
    }

    func channel(of frame: Frame) -> UInt64 { mistake == .losesChannel && frame.kind == .response ? 1 : 0 }

    func serverSide() -> any FrameCodec {
        var server = self
        server.isServer = true
        return server
    }

    /// The server speaks the other mode from its answer on. The client remembers the serial, which is not on the wire.
    mutating func noteSent(_ frame: Frame) {
        if isServer, frame.body == "OK" { isBinary = true }
        if !isServer, mistake != .losesSerial { serial = frame.serial }
    }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        let kind: Frame.Kind = isServer ? .request : .response
        guard isBinary else {
            guard let end = input.firstOffset(of: 0x0A), let line = input.readBytes(end), input.skip(1) else {
                guard input.count < maximum else { throw FrameError(exceedingLimit: "\(maximum) bytes") }
                return nil
            }
            guard end < maximum else { throw FrameError(exceedingLimit: "\(maximum) bytes") }
            guard isServer ? line == "HELLO 2" : line == "OK" else { throw FrameError(.malformed, "\(line)") }
            if !isServer { isBinary = true }
            return Frame(kind, body: line)
        }
        guard let length = input.readInteger(as: UInt8.self), let body = input.readBytes(Int(length)) else {
            return nil
        }
        if mistake == .sharesState {
            shared.count += 1
            return Frame(kind, type: UInt32(shared.count), body: body)
        }
        if mistake == .losesBytes { _ = input.skip(input.count) }
        return body.isEmpty ? Frame(.pong) : Frame(kind, serial: serial, body: body)
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        guard isBinary else {
            guard frame.body == "HELLO 2" || frame.body == "OK" else { throw FrameError(.malformed, "no greeting") }
            output.append(frame.body)
            return output.append(0x0A)
        }
        guard (1...255).contains(frame.body.count), frame.body.count < maximum else {
            throw FrameError(exceedingLimit: "255 bytes")
        }
        output.append(UInt8(frame.body.count))
        output.append(frame.body)
    }
}
