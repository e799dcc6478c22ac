#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A child process of a link. Keeps itself until it was waited for, so that a deallocated client leaves no zombie.
///
///     running ──end──► terminated (SIGTERM) ──1 s──► killed (SIGKILL)
///        └────────────────────┴─── it ends ─────────────┴──► over
///
/// The rest of its group is killed before it is waited for: until then no other group can have the number. Those that
/// become children of this process, as process 1, are left to `OrphanReaper`.
/// Unchecked Sendable: it lives on one loop, and its methods are called there only.
final class ChildProcess: WatchedSocket, TimerTarget, @unchecked Sendable {
    private enum Stage {
        case running
        case terminated(killAt: Instant)
        case killed(giveUpAt: Instant)
        case over
    }

    /// How long a process may take to end: after the end of its input, and after SIGTERM.
    static let patience = Duration.seconds(1)
    /// Between polls of a process that cannot tell of its end: usually, and if it is about to end.
    private static let (interval, shortInterval) = (Duration.milliseconds(500), Duration.milliseconds(10))

    private let loop: SocketEventLoop
    private let process: Int32
    private var stage = Stage.running
    private var notice: Int32
    private let noticeID: UInt64
    private var errors: Int32
    private let errorsID: UInt64
    private var lines = OutputLines()
    private lazy var timer = LoopTimer(target: self)
    private var nextLook: Instant?
    weak var transport: PipeTransport?
    private var receiver: (@Sendable (ProcessEvent) -> Void)?
    private var itself: ChildProcess?

    private(set) var exit: ProcessExit?

    var isOver: Bool { if case .over = stage { true } else { false } }

    static func start(
        _ command: ChildCommand,
        on loop: SocketEventLoop
    ) throws(TransportError) -> (process: ChildProcess, reading: Int32, writing: Int32) {
        let doing = "starting \(command)"
        if let mistake = command.mistake { throw TransportError(.invalidAddress, "\(doing): \(mistake)") }
        var open: [Int32] = []
        func pipe() throws(TransportError) -> (reading: Int32, writing: Int32) {
            do throws(TransportError) {
                let ends = try makePipe("\(doing): creating a pipe")
                open += [ends.reading, ends.writing]
                return ends
            } catch {
                for descriptor in open { closeDescriptor(descriptor) }
                throw error
            }
        }
        let (input, output, errors) = (try pipe(), try pipe(), try pipe())
        let (number, code) = spawn(command, [input.reading, output.writing, errors.writing])
        for descriptor in [input.reading, output.writing, errors.writing] { closeDescriptor(descriptor) }
        guard number > 0 else {
            for descriptor in [input.writing, output.reading, errors.reading] { closeDescriptor(descriptor) }
            throw spawnError(code, command, doing)
        }
        for descriptor in [input.writing, output.reading, errors.reading] { setNonBlocking(descriptor) }
        return (ChildProcess(number, errors: errors.reading, on: loop), output.reading, input.writing)
    }

    private init(_ process: Int32, errors: Int32, on loop: SocketEventLoop) {
        (self.process, self.errors, self.loop) = (process, errors, loop)
        notice = loop.tellsOfExits ? openExitNotice(of: process) : -1
        (noticeID, errorsID) = (loop.newID(), loop.newID())
        itself = self
        loop.register(self, id: noticeID)
        loop.register(self, id: errorsID)
    }

    /// Call this after the transport has reported that it is connected.
    func watch() {
        guard !isOver else { return }
        if notice >= 0 {
            loop.watch(notice, id: noticeID, reading: true, writing: false)
        } else {
            nextLook = loop.now.advanced(by: Self.interval)
        }
        if errors >= 0 { loop.watch(errors, id: errorsID, reading: true, writing: false) }
        armTimer()
    }

    func isReady(_ readiness: Readiness) {
        if readiness.id == errorsID { readErrors(upTo: 1) } else { look() }
    }

    func watchFailed(_ code: Int32) { if !isOver { lookSoon() } }

    /// Not before this call has returned: the caller may be the receiver.
    private func lookSoon() {
        nextLook = loop.now
        armTimer()
    }

    func follow(_ receiver: @escaping @Sendable (ProcessEvent) -> Void) -> Bool {
        if !isOver { self.receiver = receiver }
        return !isOver
    }

    func end() {
        guard case .running = stage else { return }
        // Another part of the program has waited for it, and its number may be that of another process.
        if state(ofChild: process) == .unknown { return lookSoon() }
        signalChild(process, notice, SIGTERM)
        stage = .terminated(killAt: loop.now.advanced(by: Self.patience))
        hurry()
        if notice >= 0 { watch() }  // it may not have been connected yet
        armTimer()
    }

    /// It is about to end. Calls nothing back.
    func hurry() {
        guard !isOver else { return }
        if nextLook != nil || notice < 0 { nextLook = loop.now.advanced(by: Self.shortInterval) }
        armTimer()
    }

    private func armTimer() {
        var next = nextLook
        switch stage {
        case .running, .over: break
        case .terminated(let instant), .killed(let instant): next = min(instant, next ?? instant)
        }
        loop.arm(timer, at: next)
    }

    func timerFired() {
        let now = loop.turnTime
        if let due = nextLook, due <= now {
            var isSoon = transport?.awaitsExit ?? true
            if case .running = stage {} else { isSoon = true }
            nextLook = now.advanced(by: isSoon ? Self.shortInterval : Self.interval)
            if errors >= 0 { readErrors(upTo: 1) }
        }
        look()
        switch stage {
        case .terminated(let killAt) where killAt <= now:
            signalChild(process, notice, SIGKILL)
            stage = .killed(giveUpAt: now.advanced(by: Self.patience))
        case .killed(let giveUpAt) where giveUpAt <= now:
            // The system does not let it end yet. It is still waited for, but the receiver does not wait any longer.
            stage = .killed(giveUpAt: .distantFuture)
            tellOfEnd()
        default: break
        }
        if !isOver { armTimer() }
    }

    private func look() {
        guard !isOver else { return }
        switch state(ofChild: process) {
        case .running: return
        case .ended:
            signalGroup(of: process, SIGKILL)
            exit = reap(process)
            if isReaper() { OrphanReaper.reap(group: process, on: loop) }
        case .unknown: break
        }
        stage = .over
        loop.arm(timer, at: nil)
        // What it has written before it ended. The bound is for a process outside of the group that still writes.
        readErrors(upTo: 64)
        tell(lines.finish(at: loop.now))
        release(&errors, errorsID)
        release(&notice, noticeID)
        transport?.processEnded()
        tellOfEnd()
        itself = nil
    }

    private func tellOfEnd() { receiver.take()?(.over) }

    private func release(_ descriptor: inout Int32, _ id: UInt64) {
        if descriptor >= 0 { loop.release(descriptor, id: id) }
        descriptor = -1
    }

    private func readErrors(upTo rounds: Int) {
        for _ in 0..<rounds where errors >= 0 {
            let (count, code, new) = unsafe withUnsafeTemporaryAllocation(byteCount: 16 * 1024, alignment: 8) {
                memory in
                let count = unsafe readDescriptor(errors, into: memory)
                let code = errno
                guard count > 0 else { return (count, code, [OutputLines.Line]()) }
                let bytes = unsafe UnsafeRawBufferPointer(rebasing: memory[..<count])
                return (count, code, unsafe lines.append(bytes, at: loop.now))
            }
            tell(new)
            if count > 0 || count < 0 && code == EINTR { continue }
            if count < 0, code == EAGAIN { return }
            tell(lines.finish(at: loop.now))
            return release(&errors, errorsID)
        }
    }

    private func tell(_ lines: [OutputLines.Line]) {
        if !lines.isEmpty { receiver?(.wrote(lines)) }
    }
}

private func spawnError(_ code: Int32, _ command: ChildCommand, _ doing: String) -> TransportError {
    var error = transportError(code, doing)
    switch code {
    case ENOENT, ENOTDIR:
        let directory = command.workingDirectory == nil ? "" : ", or its working directory,"
        error.message =
            "\(doing): the executable, or the interpreter that its first line names\(directory) does not exist"
            .asMessage
        error.code = .invalidAddress
    case EACCES, EPERM:
        error.message =
            "\(doing): the executable, or a directory on its path, may not be used by this process".asMessage
        error.code = .invalidAddress
    case ENOEXEC, ELOOP, ENAMETOOLONG, EISDIR: error.code = .invalidAddress
    case ENOTSUP, ENOSYS:
        let message = "\(doing): child processes, or their working directory, are not supported on this system"
        error = TransportError(.invalidAddress, message)
    default: break
    }
    return error
}
