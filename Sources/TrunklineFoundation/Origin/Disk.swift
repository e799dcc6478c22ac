import Foundation
import TrunklineCore

/// The queue on which files are read, written and closed: not on event loops, nor on the cooperative pool.
enum Disk {
    private static let queue = DispatchQueue(label: "trunkline.disk", attributes: .concurrent)

    static func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withContinuation { (waiter: Continuation<Value>) in
            queue.async { waiter.resume(returning: body()) }
        }
    }

    /// The file is closed on this queue, wherever it is deallocated.
    static func makeFile(isNamed: Bool) throws(TransportError) -> TemporaryFile {
        try TemporaryFile(in: NSTemporaryDirectory(), isNamed: isNamed) { close in queue.async(execute: close) }
    }
}

extension InputFile {
    func read(_ count: Int, at offset: Int) throws(TransportError) -> Data {
        var data = Data(count: count)
        let result = unsafe data.withUnsafeMutableBytes { memory in
            Result { () throws(TransportError) in unsafe try read(into: memory, at: offset) }
        }
        return data.prefix(try result.get())
    }
}

extension TemporaryFile {
    func write(_ data: Data, at offset: Int) throws {
        try unsafe data.withUnsafeBytes { bytes in unsafe try write(bytes, at: offset) }
    }

    func read(_ range: Range<Int>) -> Result<Data, URLError> {
        var data = Data(count: range.count)
        let error = unsafe data.withUnsafeMutableBytes { memory -> (any Error)? in
            do {
                let count = unsafe try read(into: memory, at: range.lowerBound)
                return count == memory.count
                    ? nil : FrameError(.illegalLength, "the temporary file is shorter than expected")
            } catch {
                return error
            }
        }
        guard let error else { return .success(data) }
        return .failure(URLError(.cannotOpenFile, userInfo: [NSUnderlyingErrorKey: error]))
    }
}
