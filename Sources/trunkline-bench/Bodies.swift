import Trunkline

/// Prepared bodies, so that creating them costs nothing. They differ in their first bytes, so that a response that
/// reaches the wrong caller is detected.
struct Bodies: Sendable {
    private let all: [Bytes]
    private let size: Int

    /// In bytes.
    private static let budget = 4 * 1024 * 1024

    init(size: Int) {
        self.size = size
        // Both are odd, so that neighbouring callers and successive requests have different bodies.
        let count = min(251, Self.budget / max(1, size) | 1)
        all = (0..<count).map { number in
            var bytes = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: size)
            for index in 0..<min(8, size) { bytes[index] = UInt8(truncatingIfNeeded: number >> (8 * index)) }
            return Bytes(bytes)
        }
    }

    subscript(number: Int) -> Bytes { all[number % all.count] }

    func check(_ reply: Response, _ number: Int) throws {
        guard !reply.isPart, reply.type == Run.type, reply.serial >= 50 else {
            throw BenchError("a response that matches no request: \(reply)")
        }
        guard reply.body.count == size else {
            throw BenchError("a response of \(reply.body.count) bytes instead of \(size)")
        }
        if size >= 8 {
            let first = reply.body.integer(at: 0, as: UInt64.self, order: .littleEndian)
            if first != UInt64(number % all.count) { throw BenchError("a response to another request: \(reply)") }
        } else if reply.body != self[number] {
            throw BenchError("a response to another request: \(reply)")
        }
    }
}
