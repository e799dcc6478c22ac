import Foundation

/// A serial operation queue that lets no more than so many operations wait: whoever adds one more is held up.
///
/// The URLSession of Linux reads from sockets and adds an operation for each piece, however far behind the delegate is.
/// All sessions of the process share the thread that is held up here, so what the delegate does must be quick. It waits
/// for the disk and never for a consumer: `BodySpool.append` sees to that, which takes what has room and fails otherwise.
final class BoundedQueue: OperationQueue, @unchecked Sendable {
    // Sendable although the compiler can't see it through the superclass, which is: the one field is a constant.
    private let room: DispatchSemaphore

    init(room: Int, name: String) {
        self.room = DispatchSemaphore(value: room)
        super.init()
        self.name = name
        maxConcurrentOperationCount = 1
    }

    override func addOperation(_ block: @Sendable @escaping () -> Void) {
        // One that an operation of this queue adds would wait for itself.
        guard OperationQueue.current !== self else { return super.addOperation(block) }
        room.wait()
        let room = room
        super.addOperation {
            block()
            room.signal()
        }
    }
}
