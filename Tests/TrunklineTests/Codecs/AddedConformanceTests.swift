import Testing
public import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// Conformances that are not declared together with the codec: by another module, by a subclass, or under a condition.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct AddedConformanceTests {}

extension AddedConformanceTests {
    enum Place: CaseIterable {
        case condition, subclass

        func codec(_ notes: Notes) -> any FrameCodec {
            switch self {
            case .condition: WrappingCodec(base: NotingLayout(notes: notes))
            case .subclass: CapableClassCodec(notes: notes)
            }
        }
    }

    /// Replies with the bodies of all pieces of the request, joined. Window updates are not pieces.
    private static let joining: LoopbackServer.Handler = { request in
        if request.body == "slow" { return .noReply }
        guard request.kind == .part else { return .echo }
        return .perform { exchange in
            var body = Array(request.body)
            while let frame = try await exchange.next() {
                if frame.type == 0x405 { continue }
                body += frame.body
                if frame.kind != .part { break }
            }
            try await exchange.reply(Frame(.response, type: 0x403, body: Bytes(body)))
        }
    }

    /// Regression: the client and the test server did not see such a conformance.
    @Test(arguments: Place.allCases)
    func conformancesAreSeenWhereverTheyAreAdded(_ place: Place) throws {
        let notes = Notes()
        try simulate(speaking: place.codec(notes), handler: Self.joining) { service, client in
            try await expectEcho("a", by: client)
            #expect(notes.all.contains("client a"))
            #expect(notes.all.contains("server a"))
            let slow = client.start(ask("slow"))
            try await service.pass(.seconds(1))
            slow.cancel()
            #expect(await failure(of: slow)?.fate == .unknown)
            try await service.pass(.seconds(1))
            #expect(await service.server.journal.cancelCount == 1)
            let stream = client.open(piece("x")).responses
            try await stream.post(update("more"))
            try await stream.post(piece("y"), isPart: true)
            try await stream.post(whole("z"))
            #expect(await words(of: stream) == ["xyz"])
            try await service.pass(.seconds(60))
            #expect(await service.server.journal.pingCount > 0)
            #expect(await client.metrics.connection.links == 1)
        }
    }

    @Test func conformancesOfAnotherModuleAreSeen() throws {
        let codec = LengthPrefixedCodec(UInt32.self).serial(at: 0, UInt16.self)
        let handler: LoopbackServer.Handler = { Bytes($0.body.dropFirst(2)) == "slow" ? .noReply : .echo }
        try simulate(speaking: codec, handler: handler) { service, client in
            let error = await failure { () throws(ClientError) in try await client.post(Request(body: "..question")) }
            #expect(error?.code == .invalidRequest)
            let slow = client.start(Request(type: LengthPrefixedCodec.cancellableType, body: "..slow"))
            try await service.pass(.seconds(1))
            slow.cancel()
            #expect(await failure(of: slow)?.fate == .unknown)
            try await service.pass(.seconds(1))
            #expect(await service.server.journal.received.map { Bytes($0.body.dropFirst(2)) } == ["slow", "stop"])
        }
    }
}

// MARK: - Another module

// These conformances apply to all tests of the process, so they have an effect in no other test.
extension LengthPrefixedCodec: PostingCodec, CancellingCodec {
    fileprivate static let cancellableType: UInt32 = 0xADDED

    /// Returns whether the message is not the one that must be answered.
    public func mayPost(_ message: Frame) -> Bool { message.body != "..question" }

    /// Returns a frame for requests of one type only.
    public func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
        type == Self.cancellableType ? Frame(.request, serial: serial, body: "..stop") : nil
    }
}

// MARK: - Conditions

/// The standard layout, which notes the frames that were sent.
private struct NotingLayout: FrameCodec, CancellingCodec, HeartbeatCodec, WindowedCodec, SentFrameCodec, ServerSideCodec
{
    var base = FrameLayout.standard
    let notes: Notes
    var side = "client"

    var matching: ResponseMatching { base.matching }
    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try base.decode(&input) }
    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        try base.encode(frame, into: &output)
    }
    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? { base.cancelFrame(for: serial, type: type) }
    func ping(number: UInt64) -> Frame? { base.ping(number: number) }
    func pong(answering ping: Frame) -> Frame? { base.pong(answering: ping) }
    var pongsLookLikePings: Bool { base.pongsLookLikePings }
    func isWindowUpdate(_ frame: Frame) -> Bool { base.isWindowUpdate(frame) }
    mutating func noteSent(_ frame: Frame) { notes.add("\(side) \(String(frame.body))") }
    func serverSide() -> any FrameCodec { server }
    var server: NotingLayout {
        NotingLayout(base: base.serverSide() as? FrameLayout ?? base, notes: notes, side: "server")
    }
}

/// Has each capability under the condition that the wrapped codec has it.
private struct WrappingCodec<Base: FrameCodec>: FrameCodec {
    var base: Base

    var matching: ResponseMatching { base.matching }
    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try base.decode(&input) }
    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        try base.encode(frame, into: &output)
    }
}

extension WrappingCodec: CancellingCodec where Base: CancellingCodec {
    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? { base.cancelFrame(for: serial, type: type) }
}

extension WrappingCodec: HeartbeatCodec where Base: HeartbeatCodec {
    func ping(number: UInt64) -> Frame? { base.ping(number: number) }
    func pong(answering ping: Frame) -> Frame? { base.pong(answering: ping) }
    var pongsLookLikePings: Bool { base.pongsLookLikePings }
}

extension WrappingCodec: WindowedCodec where Base: WindowedCodec {
    func isWindowUpdate(_ frame: Frame) -> Bool { base.isWindowUpdate(frame) }
}

extension WrappingCodec: SentFrameCodec where Base: SentFrameCodec {
    mutating func noteSent(_ frame: Frame) { base.noteSent(frame) }
}

extension WrappingCodec: ServerSideCodec where Base: ServerSideCodec {
    func serverSide() -> any FrameCodec { wrapped(base.serverSide()) }

    private func wrapped<Codec: FrameCodec>(_ codec: Codec) -> any FrameCodec { WrappingCodec<Codec>(base: codec) }
}

// MARK: - Subclasses

/// The standard layout without further capabilities. Sendable: all properties are constants.
private class ClassCodec: FrameCodec, @unchecked Sendable {
    let codec: NotingLayout

    init(_ codec: NotingLayout) { self.codec = codec }

    var matching: ResponseMatching { codec.matching }
    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try codec.decode(&input) }
    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        try codec.encode(frame, into: &output)
    }
}

/// Adds all capabilities of the standard layout.
private final class CapableClassCodec: ClassCodec, @unchecked Sendable, CancellingCodec, HeartbeatCodec, WindowedCodec,
    SentFrameCodec, ServerSideCodec
{
    convenience init(notes: Notes) { self.init(NotingLayout(notes: notes)) }

    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? { codec.cancelFrame(for: serial, type: type) }
    func ping(number: UInt64) -> Frame? { codec.ping(number: number) }
    func pong(answering ping: Frame) -> Frame? { codec.pong(answering: ping) }
    var pongsLookLikePings: Bool { codec.pongsLookLikePings }
    func isWindowUpdate(_ frame: Frame) -> Bool { codec.isWindowUpdate(frame) }
    func noteSent(_ frame: Frame) { codec.notes.add("\(codec.side) \(String(frame.body))") }
    func serverSide() -> any FrameCodec { CapableClassCodec(codec.server) }
}
