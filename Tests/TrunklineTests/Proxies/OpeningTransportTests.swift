import Testing

@testable import TrunklineCore
@testable import TrunklineIO

@Suite(.tags(.realThreads)) struct OpeningTransportTests {}

extension OpeningTransportTests {
    /// Regression: with a header of the PROXY protocol alone, nobody knew what the server had acknowledged, so an unanswered
    /// ping ended the link of a busy server in spite of `liveness.endsBusyLinks`.
    @Test(arguments: [false, true]) func onlyAProxyHidesWhatTheServerAcknowledges(isProxied: Bool) throws {
        var exchanges: [any OpeningExchange] = [ProxyHeaderExchange(.v1, isProxied: isProxied)]
        if isProxied {
            exchanges.insert(try Proxy.http("proxy", port: 3128).exchange(connectingTo: "db", port: 7000), at: 0)
        }
        let loop = EventLoops.shared.next()
        let receiver = Receiver()
        let transport = OpeningTransport(exchanges, on: loop, handler: receiver) { _ in AcknowledgedSocket() }
        #expect(transport.isAcknowledged == (isProxied ? nil : true))
        transport.close()
        #expect(transport.isAcknowledged == nil)
    }
}

private final class Receiver: TransportHandler {
    func transport(_ id: UInt64, did event: TransportEvent) {}
}

/// A socket on which nothing happens.
private final class AcknowledgedSocket: Transport {
    let id: UInt64 = 1
    var handler: (any TransportHandler)?
    var (isReading, awaitsWritable) = (false, false)
    var isAcknowledged: Bool? { true }
    var hasFailed: Bool { false }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome { .wouldBlock }
    func write(_ pieces: BytePieces) -> WriteOutcome { .wouldBlock }
    func finishWriting() {}
    func close() {}
    func reset() {}
}
