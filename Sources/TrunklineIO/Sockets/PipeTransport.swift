#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The only owner of one or two descriptors of a child process or of the user.
/// Unchecked Sendable: it lives on one loop, and its methods are called there only.
final class PipeTransport: Transport, WatchedSocket, TimerTarget, @unchecked Sendable {
    let id: UInt64
    private let writingID: UInt64
    private let loop: SocketEventLoop
    weak var handler: (any TransportHandler)?
    /// -1 if not open. Equal for a single descriptor.
    private var (reading, writing) = (Int32(-1), Int32(-1))
    /// The flags that the descriptors of the user had; `nil` for those of a child.
    private var flags: (reading: Int32, writing: Int32)?
    private var child: ChildProcess?

    private var isAtEnd = false
    /// The process has closed its standard input.
    private var isDeaf = false
    /// The end of a process that has closed its output or its input is awaited no more.
    private var isImpatient = false
    private var failure: TransportError?
    private var isWakeScheduled = false
    private lazy var timer = LoopTimer(target: self)
    private var isTimerArmed = false

    var isReading = false {
        didSet { if isReading != oldValue { readingChanged() } }
    }
    var awaitsWritable = false {
        didSet { if awaitsWritable != oldValue { updateInterest() } }
    }

    init(id: UInt64, loop: SocketEventLoop, handler: any TransportHandler) {
        (self.id, self.loop, self.handler) = (id, loop, handler)
        writingID = loop.newID()
    }

    deinit {
        releaseAll()
        if isTimerArmed { loop.schedule(LoopClosure { [loop, timer] in loop.arm(timer, at: nil) }) }
        if let child { loop.schedule(LoopClosure { child.end() }) }
    }

    /// `obstacle` is why the loop cannot watch descriptors.
    func open(_ address: SocketAddress, unless obstacle: TransportError?) {
        do throws(TransportError) {
            if var obstacle {
                obstacle.message = "opening \(address): \(obstacle.message)"
                throw obstacle
            }
            switch address {
            case .command(let command):
                let (process, reading, writing) = try ChildProcess.start(command, on: loop)
                (child, self.reading, self.writing) = (process, reading, writing)
                process.transport = self
            case .descriptors(let pair): try take(pair)
            case .ipv4, .ipv6, .unix, .vsock: throw TransportError(.invalidAddress, "\(address) needs a socket")
            }
        } catch {
            return report(.connectFailed(error))
        }
        loop.register(self, id: id)
        if writing != reading { loop.register(self, id: writingID) }
        report(.connected)
    }

    private func take(_ pair: DescriptorPair) throws(TransportError) {
        // Permanent, so without an error number.
        func unusable(_ reason: String, _ owner: DescriptorOwner) -> TransportError {
            let error = TransportError(.invalidAddress, "\(pair): \(reason)")
            owner.failure = error
            return error
        }
        guard let owner = pair.owner as? DescriptorOwner, owner.take() else {
            let used = TransportError(
                .invalidAddress,
                "\(pair) served a link already, and cannot be used for another one"
            )
            throw (pair.owner as? DescriptorOwner)?.failure ?? used
        }
        (reading, writing) = (pair.reading, pair.writing)
        let flags = (setNonBlocking(reading), setNonBlocking(writing))
        guard flags.0 >= 0, flags.1 >= 0 else {
            // The other descriptor is the transport's to close.
            if flags.0 >= 0 { retire(reading, flags: flags.0) }
            if flags.1 >= 0, writing != reading { retire(writing, flags: flags.1) }
            (reading, writing) = (-1, -1)
            throw unusable(systemMessage(EBADF), owner)
        }
        // The second flags of a single descriptor include O_NONBLOCK, which was set meanwhile.
        self.flags = (flags.0, reading == writing ? flags.0 : flags.1)
        let obstacle =
            obstacle(toWatching: reading) ?? obstacle(toWatching: writing)
            ?? obstacle(to: O_RDONLY, reading, flags: flags.0) ?? obstacle(to: O_WRONLY, writing, flags: flags.1)
        if let obstacle {
            retire(reading, flags: flags.0)
            if writing != reading { retire(writing, flags: flags.1) }
            (reading, writing) = (-1, -1)
            throw unusable(obstacle, owner)
        }
    }

    /// Never before `open` has returned.
    private func report(_ event: TransportEvent) {
        loop.schedule(
            LoopClosure { [weak self] in
                guard let self else { return }
                handler?.transport(id, did: event)
                if reading >= 0 { child?.watch() }
            }
        )
    }

    private var isOpen: Bool { reading >= 0 }

    private func updateInterest() {
        guard isOpen else { return }
        let (reads, writes) = (isReading && !isAtEnd, awaitsWritable && !isDeaf)
        if reading == writing { return loop.watch(reading, id: id, reading: reads, writing: writes) }
        loop.watch(reading, id: id, reading: reads, writing: false)
        if writing >= 0 { loop.watch(writing, id: writingID, reading: false, writing: writes) }
    }

    private func readingChanged() {
        updateInterest()
        // No descriptor becomes ready any more to tell of the end, or of what a process has left.
        if isReading, isAtEnd && !awaitsExit || child?.isOver == true { wake() }
    }

    private func wake() {
        guard !isWakeScheduled else { return }
        isWakeScheduled = true
        loop.scheduleInNextTurn(
            LoopClosure { [weak self] in
                guard let self else { return }
                isWakeScheduled = false
                if isReading { handler?.transport(id, did: .readable) }
            }
        )
    }

    func isReady(_ readiness: Readiness) {
        if readiness.id == id, readiness.isReadable, isReading { handler?.transport(id, did: .readable) }
        if readiness.isWritable, awaitsWritable, readiness.id == writingID || reading == writing {
            handler?.transport(id, did: .writable)
        }
    }

    func watchFailed(_ code: Int32) {
        guard isOpen, failure == nil else { return }
        let hint = code == EPERM ? " (a file cannot be watched; use a pipe, a socket or a terminal)" : ""
        failure = TransportError(.system, errno: code, "watching a descriptor: \(systemMessage(code))\(hint)")
        tellOfEnd()
    }

    private func tellOfEnd() {
        if isReading { handler?.transport(id, did: .readable) }
        if isOpen, awaitsWritable { handler?.transport(id, did: .writable) }
    }

    var hasFailed: Bool {
        guard isOpen, failure == nil, child?.isOver != true else { return true }
        return isBroken(reading)
    }

    var exit: ProcessExit? { child?.exit }

    func followProcess(_ receiver: @escaping @Sendable (ProcessEvent) -> Void) -> Bool {
        child?.follow(receiver) ?? false
    }

    /// The process has closed its output or its input, and may be about to end. How it ends says more than that.
    var awaitsExit: Bool {
        guard let child, isAtEnd || isDeaf else { return false }
        return !child.isOver && !isImpatient
    }

    private func beginToAwaitExit() {
        updateInterest()
        guard awaitsExit, !isTimerArmed else { return }
        isTimerArmed = true
        loop.arm(timer, at: loop.now.advanced(by: ChildProcess.patience))
        child?.hurry()
    }

    func timerFired() {
        isTimerArmed = false
        guard awaitsExit else { return }
        isImpatient = true
        tellOfEnd()
    }

    func processEnded() { if isOpen { tellOfEnd() } }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome {
        guard isOpen else { return .end }
        if let failure { return .failed(failure) }
        while !isAtEnd {
            let count = unsafe readDescriptor(reading, into: buffer)
            if count > 0 {
                // A process outside of the group may keep the pipe open.
                if child?.isOver == true { wake() }
                return .bytes(count)
            }
            switch count == 0 ? 0 : errno {
            case EINTR: continue
            case EAGAIN, EWOULDBLOCK:
                guard child?.isOver == true else { return .wouldBlock }
                isAtEnd = true
            case 0,
                EIO where flags != nil:
                isAtEnd = true  // a terminal that was hung up reports EIO
            case let code: return .failed(transportError(code, "reading"))
            }
            beginToAwaitExit()
        }
        return awaitsExit ? .wouldBlock : .end
    }

    func write(_ pieces: BytePieces) -> WriteOutcome {
        if let failure { return .failed(failure) }
        if let child, child.isOver {
            return .failed(child.exit.map { .exited($0) } ?? TransportError(.closedByPeer, "the child process ended"))
        }
        guard writing >= 0 else { return .failed(TransportError(.closedByPeer, "the descriptor is closed")) }
        while !isDeaf {
            let count = unsafe pieces.isEmpty ? 0 : writePieces(writing, pieces)
            if count >= 0 { return .bytes(count) }
            switch errno {
            case EINTR: continue
            case EAGAIN, EWOULDBLOCK: return .wouldBlock
            case EPIPE where child != nil:
                isDeaf = true
                beginToAwaitExit()
            case let code: return .failed(transportError(code, "writing"))
            }
        }
        if awaitsExit { return .wouldBlock }
        return .failed(TransportError(.reset, errno: EPIPE, "the child process closed its standard input"))
    }

    func finishWriting() {
        guard writing >= 0 else { return }
        if isSocket(writing) { shutdown(writing, Int32(SHUT_WR)) }
        if writing != reading { releaseWriting() }
    }

    func close() {
        guard isOpen else { return }
        handler = nil
        releaseAll()
        if isTimerArmed { loop.arm(timer, at: nil) }
        isTimerArmed = false
        child?.end()
    }

    func reset() { close() }

    private func releaseAll() {
        if writing >= 0, writing != reading { releaseWriting() }
        guard reading >= 0 else { return }
        release(reading, id, flags?.reading)
        (reading, writing) = (-1, -1)
    }

    private func releaseWriting() {
        release(writing, writingID, flags?.writing)
        writing = -1
    }

    private func release(_ descriptor: Int32, _ id: UInt64, _ flags: Int32?) {
        loop.release(descriptor, id: id) { if let flags { retire($0, flags: flags) } else { closeDescriptor($0) } }
    }
}
