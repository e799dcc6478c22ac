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

/// Which way a socket is ready.
struct Readiness: Sendable {
    var id: UInt64
    var isReadable: Bool
    var isWritable: Bool
}

/// Waits for sockets to become ready. Confined to its loop, but for `wake`. Level-triggered.
protocol Poller: AnyObject {
    /// Watches `descriptor` for reading, writing or both; for neither it is not watched at all, not even for errors,
    /// so that a paused connection that is reset does not keep the loop spinning.
    ///
    /// Returns 0, or the system's error number when it cannot be watched (no memory, too many watched in all): `wait` tells
    /// nothing of it then.
    func watch(_ descriptor: Int32, id: UInt64, reading: Bool, writing: Bool) -> Int32

    /// Waits until something is ready, `wake` is called or the time is over (nanoseconds; negative: no limit).
    func wait(nanoseconds: Int64, into ready: inout [Readiness])

    /// A descriptor that interrupts `wait` when eight bytes are written to it, from any thread; -1 for none.
    var wakeDescriptor: Int32 { get }
}

extension EventLoops.Mechanism {
    /// A poller of this kind. Throws when the system has no descriptors left.
    func makePoller() throws(TransportError) -> any Poller {
        #if os(Linux)
            if self == .epoll { return try EpollPoller() }
        #endif
        return try PollPoller()
    }
}

/// Watches nothing and needs nothing of the system: for a loop without descriptors, which still runs jobs and timers.
final class SleepingPoller: Poller {
    /// Nothing wakes it, so it looks after posted work this often, in milliseconds.
    private static let interval: Int32 = 10

    let wakeDescriptor: Int32 = -1

    func watch(_ descriptor: Int32, id: UInt64, reading: Bool, writing: Bool) -> Int32 {
        reading || writing ? EMFILE : 0
    }

    func wait(nanoseconds: Int64, into ready: inout [Readiness]) {
        let limit = milliseconds(nanoseconds)
        _ = poll(nil, 0, limit < 0 ? Self.interval : min(limit, Self.interval))
    }
}

/// Interrupts the wait of the poller with this wake descriptor.
func wake(_ descriptor: Int32) {
    var one: UInt64 = 1
    // A full pipe or counter means that a wake-up is on its way already.
    _ = unsafe write(descriptor, &one, 8)
}

/// Nanoseconds as whole milliseconds, rounded up, so that a timer never finds itself early.
private func milliseconds(_ nanoseconds: Int64) -> Int32 {
    nanoseconds < 0 ? -1 : Int32(clamping: nanoseconds / 1_000_000 + (nanoseconds % 1_000_000 > 0 ? 1 : 0))
}

#if os(Linux)
    /// `epoll(7)` with an `eventfd(2)` to be woken by.
    final class EpollPoller: Poller {
        private let epoll: Int32
        let wakeDescriptor: Int32
        private var watched: Set<Int32> = []
        private var ids = [UInt64](repeating: 0, count: 256)
        private var directions = [UInt8](repeating: 0, count: 256)

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
        }

        deinit {
            close(epoll)
            close(wakeDescriptor)
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
            // One that cannot be taken out is about to be closed, which takes it out.
            watched.remove(descriptor)
            return 0
        }

        func wait(nanoseconds: Int64, into ready: inout [Readiness]) {
            let count = unsafe trunkline_epoll_wait(epoll, &ids, &directions, 256, milliseconds(nanoseconds))
            guard count > 0 else { return }  // the time is over, or a signal came: the turn goes on either way
            for index in 0..<Int(count) {
                if ids[index] == 0 {
                    var counter: UInt64 = 0
                    _ = unsafe read(wakeDescriptor, &counter, 8)
                } else {
                    ready.append(
                        Readiness(
                            id: ids[index],
                            isReadable: directions[index] & 1 != 0,
                            isWritable: directions[index] & 2 != 0
                        )
                    )
                }
            }
        }
    }
#endif

/// `poll(2)` with a pipe to be woken by.
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
        let count = unsafe descriptors.withUnsafeMutableBufferPointer {
            unsafe poll($0.baseAddress, nfds_t($0.count), milliseconds(nanoseconds))
        }
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
}
