import Testing
import Trunkline
import TrunklineTesting

/// Requests on the channels of SSH (RFC 4254), without its encryption.
///
/// Section 4: "replies that relate to the same channel MUST also be replied to in the right order. However, channel
/// requests for distinct channels MAY be replied to out-of-order". Replies have no number, and say only whether the request
/// has succeeded, so a reply that is matched wrongly is noticed by its outcome.
@Suite(.simulated, .timeLimit(.seeded))
struct SSHChannelTests {}

extension SSHChannelTests {
    /// The outcome of a request, which its name says.
    private func isAccepted(_ name: String) -> Bool { name.hasPrefix("yes") }

    private func answer(_ request: Frame, after delay: Duration) -> Reaction {
        guard request["wants reply"] == 1 else { return .noReply }
        let type: SSHChannelCodec.Message = isAccepted(String(request.body)) ? .channelSuccess : .channelFailure
        var reply = Frame(.response, type: type.rawValue)
        reply["channel"] = request["channel"]
        return delay == .zero ? .reply(reply) : .after(delay, .reply(reply))
    }

    /// Section 5.4: each call receives its own reply, although the server answers the channels in any order.
    @Test func repliesBelongToTheRequestsOfTheirChannel() throws {
        for seed in seeds(20) {
            let random = Lock(SeededGenerator(seed: seed))
            let handler: LoopbackServer.Handler = { request in
                let delay = random.withLock { Int.random(in: 0...3, using: &$0) * 20 }
                return answer(request, after: .milliseconds(delay))
            }
            try simulate(seed: seed, speaking: SSHChannelCodec(), handler: handler) { service, client in
                await withTaskGroup { group in
                    for caller in 0..<10 {
                        group.addTask(executorPreference: service.network.executor) {
                            for call in 0..<10 {
                                let (channel, isAccepted) = random.withLock {
                                    (UInt64.random(in: 0...4, using: &$0), Bool.random(using: &$0))
                                }
                                let name = "\(isAccepted ? "yes" : "no") \(caller) \(call)"
                                do throws(ClientError) {
                                    let reply = try await client.send(.sshRequest(name, on: channel))
                                    #expect(isAccepted && reply["channel"] == channel, "seed \(seed)")
                                } catch {
                                    #expect(!isAccepted && error.code == .rejected, "seed \(seed)")
                                }
                            }
                        }
                    }
                }
                let metrics = await client.metrics
                #expect(metrics.responses == 100 && metrics.unknownResponses == 0, "seed \(seed)")
                #expect(metrics.connection.links == 1, "seed \(seed)")
            }
        }
    }

    /// Section 5.4: "If 'want reply' is FALSE, no response will be sent to the request."
    @Test func requestsThatWantNoReplyAreMessages() throws {
        try simulate(speaking: SSHChannelCodec(), handler: { answer($0, after: .zero) }) { service, client in
            try await client.post(.sshRequest("yes quietly", on: 1, wantsReply: false))
            let error = await failure { () throws(ClientError) in try await client.post(.sshRequest("yes", on: 1)) }
            #expect(error?.code == .invalidRequest)
            _ = try await client.send(.sshRequest("yes", on: 1))
            #expect(await service.server.journal.requestCount == 2)
        }
    }

    /// Section 5.3: a party may close a channel at any time. Nothing that is in flight on it is answered after that.
    @Test func aClosedChannelEndsItsRequests() throws {
        let close = Bytes([0, 0, 0, 5, 97, 0, 0, 0, 2])
        let handler: LoopbackServer.Handler = { request in
            if request.body == "yes close" { return .sequence([.garbage(close), .noReply]) }
            return request["channel"] == 2 ? .noReply : answer(request, after: .milliseconds(50))
        }
        try simulate(speaking: SSHChannelCodec(), handler: handler) { service, client in
            let lost = (0..<3).map { client.start(.sshRequest("yes \($0)", on: 2)) }
            let other = client.start(.sshRequest("yes", on: 3))
            for handle in lost + [client.start(.sshRequest("yes close", on: 2))] {
                let error = await failure(of: handle)
                #expect(error?.code == .interrupted && error?.fate == .unknown)
                #expect(error?.reason == ServerReason("CHANNEL_CLOSE"))
            }
            _ = try await other.value
            #expect(await client.metrics.connection.links == 1)
        }
    }
}

/// The binary packets of SSH without padding and MAC (RFC 4253, section 6), and the messages of RFC 4254, section 9.
private struct SSHChannelCodec: FrameCodec, ChannelCodec, PostingCodec, ServerSideCodec {
    enum Message: UInt32 {
        case channelClose = 97, channelRequest, channelSuccess, channelFailure
    }

    var isServer = false

    var matching: ResponseMatching { .inOrderByChannel }
    func channel(of frame: Frame) -> UInt64 { frame["channel"] ?? 0 }
    func mayPost(_ request: Frame) -> Bool { request["wants reply"] != 1 }

    func serverSide() -> any FrameCodec { SSHChannelCodec(isServer: true) }

    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let length = input.integer(at: 0, as: UInt32.self) else { return nil }
        guard 5...35_000 ~= length else { throw FrameError(.illegalLength, "a packet of \(length) bytes") }
        input.await(4 + Int(length))
        guard input.count >= 4 + Int(length), input.skip(4), let type = input.readInteger(as: UInt8.self),
            let channel = input.readInteger(as: UInt32.self), let rest = input.readBytes(Int(length) - 5)
        else { return nil }
        var frame = Frame(isServer ? .request : .response, type: UInt32(type))
        frame["channel"] = UInt64(channel)
        switch Message(rawValue: frame.type) {
        case .channelRequest where isServer:
            var fields = ReceiveBuffer(rest)
            guard let size = fields.readInteger(as: UInt32.self), size <= 1000, let name = fields.readBytes(Int(size)),
                let wantsReply = fields.readInteger(as: UInt8.self)
            else { throw FrameError(.illegalLength, "a channel request of \(length) bytes") }
            frame.body = name
            frame["wants reply"] = UInt64(wantsReply)
        case .channelSuccess where !isServer: break
        case .channelFailure where !isServer: frame.isErrorResponse = true
        case .channelClose where !isServer:
            frame.isErrorResponse = true
            (frame.answers, frame.isFateUnknown) = (.next(.max), true)
            frame.reason = ServerReason("CHANNEL_CLOSE")
        default: throw FrameError(.unknownType, "a message of type \(type)")
        }
        return frame
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        let isRequest = frame.type == Message.channelRequest.rawValue
        output.append(integer: UInt32(5 + (isRequest ? 5 + frame.body.count : 0)))
        output.append(UInt8(frame.type))
        output.append(integer: UInt32(channel(of: frame)))
        guard isRequest else { return }
        output.append(integer: UInt32(frame.body.count))
        output.append(frame.body)
        output.append(UInt8(frame["wants reply"] ?? 0))
    }
}

extension Request {
    fileprivate static func sshRequest(_ name: String, on channel: UInt64, wantsReply: Bool = true) -> Request {
        var request = Request(type: SSHChannelCodec.Message.channelRequest.rawValue, body: Bytes(name))
        request["channel"] = channel
        request["wants reply"] = wantsReply ? 1 : 0
        return request
    }
}
