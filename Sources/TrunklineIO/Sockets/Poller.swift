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

/// The directions in which a socket is ready.
struct Readiness: Sendable {
    var id: UInt64
    var isReadable: Bool
    var isWritable: Bool
}

/// Waits for sockets to become ready. Level-triggered. Confined to its loop, except for `wake`.
protocol Poller: AnyObject {
    /// Watches `descriptor` for reading, writing or both.
    ///
    /// With neither, the descriptor is not watched at all, not even for errors. So a paused connection that is reset
    /// does not keep the loop spinning.
    ///
    /// Returns 0, or the system's error number if the descriptor cannot be watched (no memory, too many watched
    /// descriptors); then `wait` never reports it.
    func watch(_ descriptor: Int32, id: UInt64, reading: Bool, writing: Bool) -> Int32

    /// Waits until something is ready, `wake` is called, or `nanoseconds` have passed (negative: no limit).
    ///
    /// A signal ends the wait. Then nothing is appended to `ready`, even if sockets are ready.
    func wait(nanoseconds: Int64, into ready: inout [Readiness])

    /// Appends every socket that is ready now, some perhaps twice. Does not wait, and no signal ends it.
    func look(into ready: inout [Readiness])

    /// The descriptor that interrupts `wait` when any thread writes eight bytes to it; -1 if there is none.
    var wakeDescriptor: Int32 { get }
}

extension EventLoops.Mechanism {
    /// Creates a poller of this kind. Throws if the system has no descriptors left.
    func makePoller() throws(TransportError) -> any Poller {
        #if os(Linux)
            if self == .epoll { return try EpollPoller() }
        #endif
        return try PollPoller()
    }
}

/// Watches nothing and needs no system resources. For a loop without descriptors, which still runs jobs and timers.
final class SleepingPoller: Poller {
    /// Nothing can wake this poller, so the loop checks for posted work at this interval, in milliseconds.
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

/// Interrupts the `wait` of the poller with this wake descriptor.
func wake(_ descriptor: Int32) {
    var one: UInt64 = 1
    // If the pipe or counter is full, a wake-up is already pending.
    _ = unsafe write(descriptor, &one, 8)
}

/// Converts nanoseconds to whole milliseconds, rounded up so that a timer never fires early.
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
        /// The maximum number of descriptors that one call of the system reports.
        private static let batch = 256
        /// What the system reports. Arrays in properties would be checked for exclusive access several times in each turn.
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

        /// Returns the number of descriptors that the system reported.
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

/// Uses `poll(2)`, with a pipe for waking.
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
