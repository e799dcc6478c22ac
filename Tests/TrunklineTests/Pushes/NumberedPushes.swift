import Testing
import Trunkline

@testable import TrunklineTesting

/// `count` pushes of twelve bytes in the standard layout, numbered by their serials.
func numberedPushes(_ count: Int) -> [UInt8] {
    (0..<UInt32(count)).flatMap { number -> [UInt8] in
        [0, 0, 0, 0x10] + (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) } + [0, 0, 0, 0]
    }
}

/// Expects `count` numbered pushes, in order.
func expectNumberedPushes(
    _ count: Int,
    from stream: PushStream,
    sourceLocation: SourceLocation = #_sourceLocation
) async {
    var next: SerialNumber = 0
    for await frame in stream.messages.prefix(count) {
        guard frame.serial == next else {
            Issue.record("\(frame) instead of number \(next)", sourceLocation: sourceLocation)
            return
        }
        next += 1
    }
    #expect(next == count, sourceLocation: sourceLocation)
}

extension NetworkConditions {
    /// A network that carries a mebibyte at once, without fragmentation: data that is written together
    /// arrives together.
    static var wide: NetworkConditions {
        var conditions = NetworkConditions()
        (conditions.sendBuffer, conditions.receiveWindow, conditions.fragmentation) = (1 << 20, 1 << 20, 0)
        conditions.latency = .milliseconds(1)...(.milliseconds(1))
        return conditions
    }
}
