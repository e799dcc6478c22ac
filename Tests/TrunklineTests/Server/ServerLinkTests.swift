import Testing
import Trunkline

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback

/// What the test server has to send on one link.
@Suite struct ServerLinkTests {}

extension ServerLinkTests {
    /// Regression: bytes that were not a frame, as of `Reaction.bytes`, were collected in one buffer without a limit, which
    /// frees nothing before its last byte is written.
    @Test func bytesAreQueuedInBuffersOfLimitedSize() {
        let socket = FullSocket()
        let link = ServerLink(socket, LinkCodec(FrameLayout.standard))
        let chunks = (0..<100).map { [UInt8](repeating: $0, count: 100_000) }
        for chunk in chunks { link.append(chunk) }
        #expect(link.unsentCount == 10_000_000)
        var sent = 0
        #expect(link.flush(sent: &sent) == .done && sent == 0)
        #expect(socket.offered > 0 && socket.offered < 400_000)
        socket.isFull = false
        // A flush ends after some buffers, so that other links have their turn.
        while link.flush(sent: &sent) == .again {}
        #expect(sent == 10_000_000)
        #expect(socket.written == chunks.flatMap(\.self) && link.unsentCount == 0)
    }
}

/// A socket that takes no byte until there is room.
private final class FullSocket: Transport {
    let id: UInt64 = 1
    var handler: (any TransportHandler)?
    var (isReading, awaitsWritable) = (false, false)
    var hasFailed: Bool { false }
    var isFull = true
    /// How many bytes the latest write had.
    private(set) var offered = 0
    private(set) var written: [UInt8] = []

    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome { .wouldBlock }

    func write(_ pieces: BytePieces) -> WriteOutcome {
        offered = unsafe pieces.reduce(0) { $0 + $1.count }
        if isFull { return .wouldBlock }
        for index in pieces.indices { unsafe written.append(contentsOf: pieces[index]) }
        return .bytes(offered)
    }

    func finishWriting() {}
    func close() {}
    func reset() {}
}
