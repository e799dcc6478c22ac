import Foundation

/// A serial operation queue with a bounded number of waiting operations: adding one more blocks the calling thread.
///
/// The URLSession of Linux adds an operation for each piece of data, however far behind the delegate is. All sessions
/// of the process share the thread that is blocked here, so the delegate may wait for the disk, but never for a reader.
final class BoundedQueue: OperationQueue, @unchecked Sendable {
    // Sendable: the superclass is, and the only field is constant, which the compiler cannot check through it.
    private let room: DispatchSemaphore

    init(room: Int, name: String) {
        self.room = DispatchSemaphore(value: room)
        super.init()
        self.name = name
        maxConcurrentOperationCount = 1
    }

    override func addOperation(_ block: @Sendable @escaping () -> Void) {
        // An operation that adds another one to its own queue would wait for itself.
        guard OperationQueue.current !== self else { return super.addOperation(block) }
        room.wait()
        let room = room
        super.addOperation {
            block()
            room.signal()
        }
    }
}
