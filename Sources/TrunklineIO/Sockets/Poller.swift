#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif
#if os(Linux)
    import CTrunkline
#endif

struct Readiness: Sendable {
    var id: UInt64
    var isReadable: Bool
    var isWritable: Bool
}

/// Waits for sockets to become ready. Level-triggered. Confined to its loop, except for `wake`.
protocol Poller: AnyObject {
    /// With neither direction, not even errors are reported, so that a paused connection that is reset does not keep
    /// the loop spinning. Returns 0, or the system's error number; then `wait` never reports the descriptor.
    func watch(_ descriptor: Int32, id: UInt64, reading: Bool, writing: Bool) -> Int32

    /// Negative `nanoseconds`: no limit. A signal ends the wait with nothing appended, even if sockets are ready.
    func wait(nanoseconds: Int64, into ready: inout [Readiness])

    /// Appends every ready socket, some perhaps twice. Does not wait, and no signal ends it.
    func look(into ready: inout [Readiness])

    /// Interrupts `wait` when any thread writes eight bytes to it; -1 if there is none.
    var wakeDescriptor: Int32 { get }
}

extension EventLoops.Mechanism {
    func makePoller() throws(TransportError) -> any Poller {
        #if os(Linux)
            if self == .epoll { return try EpollPoller() }
        #endif
        return try PollPoller()
    }
}

/// For a loop without descriptors, which still runs jobs and timers.
final class SleepingPoller: Poller {
    /// Milliseconds between checks for posted work: nothing can wake this poller.
    private static let interval: Int32 = 10

    let wakeDescriptor: Int32 = -1

    func watch(_ descriptor: Int32, id: UInt64, reading: Bool, writing: Bool) -> Int32 {
        reading || writing ? EMFILE : 0
    }

    func wait(nanoseconds: Int64, into ready: inout [Readiness]) {
        let limit = milliseconds(nanoseconds)
        _ = poll(nil, 0, limit < 0 ? Self.interval : min(limit, Self.interval))
    }

    func look(into ready: inout [Readiness]) {}
}

func wake(_ descriptor: Int32) {
    var one: UInt64 = 1
    // If the pipe or counter is full, a wake-up is already pending.
    _ = unsafe write(descriptor, &one, 8)
}

/// Rounds up, so that a timer never fires early.
private func milliseconds(_ nanoseconds: Int64) -> Int32 {
    nanoseconds < 0 ? -1 : Int32(clamping: nanoseconds / 1_000_000 + (nanoseconds % 1_000_000 > 0 ? 1 : 0))
}

#if os(Linux)
    /// Uses `epoll(7)`, with an `eventfd(2)` for waking.
    ///
    /// Safe: only `poll` uses the buffers. They have room for a batch, and live as long as the poller.
    @safe
    final class EpollPoller: Poller {
        private let epoll: Int32
        let wakeDescriptor: Int32
        private var watched: Set<Int32> = []
        private static let batch = 256
        /// Arrays in properties would be checked for exclusive access several times in each turn.
        private let ids: UnsafeMutablePointer<UInt64>
        private let directions: UnsafeMutablePointer<UInt8>

        init() throws(TransportError) {
            let epoll = trunkline_epoll_create()
            guard epoll >= 0 else { throw transportError(errno, "creating an epoll instance") }
            let wakeDescriptor = trunkline_eventfd()
            guard wakeDescriptor >= 0, trunkline_epoll_watch(epoll, wakeDescriptor, 0, 1, 0, 1) == 0 else {
                let error = transportError(errno, "creating an eventfd")
                close(epoll)
                if wakeDescriptor >= 0 { close(wakeDescriptor) }
                throw error
            }
            self.epoll = epoll
            self.wakeDescriptor = wakeDescriptor
            unsafe ids = .allocate(capacity: Self.batch)
            unsafe directions = .allocate(capacity: Self.batch)
        }

        deinit {
            close(epoll)
            close(wakeDescriptor)
            unsafe ids.deallocate()
            unsafe directions.deallocate()
        }

        func watch(_ descriptor: Int32, id: UInt64, reading: Bool, writing: Bool) -> Int32 {
            let isWanted = reading || writing
            let wasWatched = watched.contains(descriptor)
            guard isWanted || wasWatched else { return 0 }
            let code = trunkline_epoll_watch(
                epoll,
                descriptor,
                id,
                reading ? 1 : 0,
                writing ? 1 : 0,
                wasWatched ? 0 : 1
            )
            let error = code == 0 ? 0 : errno
            if isWanted {
                if error == 0 { watched.insert(descriptor) }
                return error
            }
            // If the descriptor cannot be removed it is about to be closed, which removes it.
            watched.remove(descriptor)
            return 0
        }

        func wait(nanoseconds: Int64, into ready: inout [Readiness]) {
            _ = poll(milliseconds(nanoseconds), into: &ready)
        }

        func look(into ready: inout [Readiness]) {
            // The system reports ready descriptors in rotation, so that after these calls each has had its turn.
            for _ in 0...(watched.count / Self.batch) {
                guard poll(0, into: &ready) == Self.batch else { return }
            }
        }

        private func poll(_ milliseconds: Int32, into ready: inout [Readiness]) -> Int {
            var count: Int32
            repeat {
                count = unsafe trunkline_epoll_wait(epoll, ids, directions, Int32(Self.batch), milliseconds)
            } while count < 0 && errno == EINTR && milliseconds == 0
            guard count > 0 else { return 0 }
            for index in 0..<Int(count) {
                if unsafe ids[index] == 0 {
                    var counter: UInt64 = 0
                    _ = unsafe read(wakeDescriptor, &counter, 8)
                } else {
                    ready.append(
                        Readiness(
                            id: unsafe ids[index],
                            isReadable: unsafe directions[index] & 1 != 0,
                            isWritable: unsafe directions[index] & 2 != 0
                        )
                    )
                }
            }
            return Int(count)
        }
    }
#endif

final class PollPoller: Poller {
    private var descriptors: [pollfd] = []
    private var ids: [UInt64] = []
    private var indices: [Int32: Int] = [:]
    private let wakeReader: Int32
    let wakeDescriptor: Int32

    init() throws(TransportError) {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { throw transportError(errno, "creating a pipe") }
        for end in ends {
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
        }
        wakeReader = ends[0]
        wakeDescriptor = ends[1]
        descriptors.append(pollfd(fd: wakeReader, events: Int16(POLLIN), revents: 0))
        ids.append(0)
    }

    deinit {
        close(wakeReader)
        close(wakeDescriptor)
    }

    func watch(_ descriptor: Int32, id: UInt64, reading: Bool, writing: Bool) -> Int32 {
        let events = Int16((reading ? POLLIN : 0) | (writing ? POLLOUT : 0))
        if let index = indices[descriptor] {
            if events != 0 {
                descriptors[index].events = events
                ids[index] = id
            } else {
                let last = descriptors.count - 1
                descriptors.swapAt(index, last)
                ids.swapAt(index, last)
                indices[descriptors[index].fd] = index
                descriptors.removeLast()
                ids.removeLast()
                indices[descriptor] = nil
            }
        } else if events != 0 {
            indices[descriptor] = descriptors.count
            descriptors.append(pollfd(fd: descriptor, events: events, revents: 0))
            ids.append(id)
        }
        return 0
    }

    func wait(nanoseconds: Int64, into ready: inout [Readiness]) {
        let limit = milliseconds(nanoseconds)
        var count: Int32
        repeat {
            count = unsafe descriptors.withUnsafeMutableBufferPointer {
                unsafe poll($0.baseAddress, nfds_t($0.count), limit)
            }
        } while count < 0 && errno == EINTR && limit == 0
        guard count > 0 else { return }
        if descriptors[0].revents != 0 {
            var drained = [UInt8](repeating: 0, count: 512)
            while unsafe read(wakeReader, &drained, drained.count) == drained.count {}
        }
        for index in descriptors.indices.dropFirst() where descriptors[index].revents != 0 {
            let events = Int32(descriptors[index].revents)
            let failed = events & Int32(POLLERR | POLLHUP | POLLNVAL) != 0
            ready.append(
                Readiness(
                    id: ids[index],
                    isReadable: failed || events & Int32(POLLIN) != 0,
                    isWritable: failed || events & Int32(POLLOUT) != 0
                )
            )
        }
    }

    func look(into ready: inout [Readiness]) { wait(nanoseconds: 0, into: &ready) }
}
