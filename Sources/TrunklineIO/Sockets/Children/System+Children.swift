import CTrunkline

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

func makePipe(_ doing: String) throws(TransportError) -> (reading: Int32, writing: Int32) {
    var ends: [Int32] = [-1, -1]
    #if os(Linux)
        guard unsafe trunkline_pipe(&ends) == 0 else { throw transportError(errno, doing) }
    #else
        guard unsafe pipe(&ends) == 0 else { throw transportError(errno, doing) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    #endif
    // If this process has closed its standard descriptors, the ends may have their numbers, which are set in the child.
    for index in ends.indices where ends[index] < 3 {
        let moved = fcntl(ends[index], F_DUPFD_CLOEXEC, 3)
        let code = errno
        closeDescriptor(ends[index])
        ends[index] = moved
        guard moved >= 0 else {
            for end in ends where end >= 0 { closeDescriptor(end) }
            throw transportError(code, doing)
        }
    }
    return (ends[0], ends[1])
}

/// Returns the flags that the descriptor had; negative if it is not open.
@discardableResult
func setNonBlocking(_ descriptor: Int32) -> Int32 {
    let flags = fcntl(descriptor, F_GETFL)
    if flags >= 0, flags & O_NONBLOCK == 0 { _ = fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) }
    return flags
}

/// Closes a descriptor of the user. Restores its flags: a shell may use the same file. Puts the null device in place of
/// standard input, output and error, because whatever is opened next would have their numbers.
func retire(_ descriptor: Int32, flags: Int32) {
    if flags >= 0, flags & O_NONBLOCK == 0 { _ = fcntl(descriptor, F_SETFL, flags) }
    guard descriptor <= 2 else { return closeDescriptor(descriptor) }
    let null = unsafe open("/dev/null", O_RDWR | O_CLOEXEC)
    guard null >= 0 else { return closeDescriptor(descriptor) }
    if null == descriptor { return }  // it was not open
    dup2(null, descriptor)
    closeDescriptor(null)
}

func isSocket(_ descriptor: Int32) -> Bool {
    var (type, length) = (Int32(0), socklen_t(MemoryLayout<Int32>.size))
    return unsafe getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &length) == 0
}

/// Returns a negative number and sets `errno` on failure. Pipes have no flag against SIGPIPE, so the signal is blocked
/// in this thread meanwhile.
func writePieces(_ descriptor: Int32, _ pieces: BytePieces) -> Int {
    var (signals, before) = (sigset_t(), sigset_t())
    unsafe sigemptyset(&signals)
    unsafe sigaddset(&signals, SIGPIPE)
    unsafe pthread_sigmask(SIG_BLOCK, &signals, &before)
    let count = unsafe withVectors(of: pieces) { vectors in
        unsafe writev(descriptor, vectors.baseAddress, Int32(vectors.count))
    }
    let code = errno
    // If the program has blocked the signal itself, it is the program's to take.
    if unsafe count < 0 && code == EPIPE && sigismember(&before, SIGPIPE) == 0 {
        var pending = sigset_t()
        unsafe sigpending(&pending)
        if unsafe sigismember(&pending, SIGPIPE) == 1 {
            var signal: Int32 = 0
            unsafe sigwait(&signals, &signal)
        }
    }
    unsafe pthread_sigmask(SIG_SETMASK, &before, nil)
    errno = code
    return count
}

func signalGroup(of process: Int32, _ signal: Int32) {
    if process > 1 { _ = kill(-process, signal) }
}

/// The child was not waited for, and may have joined another group. `notice` is that of `openExitNotice(of:)`, or -1.
func signalChild(_ process: Int32, _ notice: Int32, _ signal: Int32) {
    let isInGroup = getpgid(process) == process
    signalGroup(of: process, signal)
    // Once is enough: a program may take the second signal for impatience.
    guard !isInGroup, process > 1 else { return }
    #if os(Linux)
        // A sandbox may know the descriptor, and not this call.
        if notice >= 0, trunkline_pidfd_signal(notice, signal) == 0 { return }
    #endif
    _ = kill(process, signal)
}

enum GroupRest {
    case reaped
    case running
    case none
}

func reapOne(ofGroup group: Int32) -> GroupRest {
    #if os(Linux)
        switch trunkline_reap_in_group(group) {
        case 1: .reaped
        case 0: .running
        default: .none
        }
    #else
        .none
    #endif
}

func isReaper() -> Bool {
    #if os(Linux)
        trunkline_is_reaper() == 1
    #else
        getpid() == 1
    #endif
}

func obstacle(to purpose: Int32, _ descriptor: Int32, flags: Int32) -> String? {
    let mode = flags & O_ACCMODE
    guard mode != O_RDWR, mode != purpose else { return nil }
    return purpose == O_RDONLY
        ? "descriptor \(descriptor) is open for writing only, and cannot be read"
        : "descriptor \(descriptor) is open for reading only, and cannot be written"
}

/// A descriptor that is readable once the child has ended; -1 if the system has none.
func openExitNotice(of process: Int32) -> Int32 {
    #if os(Linux)
        trunkline_pidfd_open(process)
    #else
        -1
    #endif
}

enum ChildState {
    case running
    /// Its parent has not waited for it: its number is still its own.
    case ended
    case unknown
}

func state(ofChild process: Int32) -> ChildState {
    #if os(Linux) || os(macOS)
        switch trunkline_child_has_ended(process) {
        case 0: .running
        case 1: .ended
        default: .unknown
        }
    #else
        .unknown
    #endif
}

func reap(_ process: Int32) -> ProcessExit? {
    var status: Int32 = 0
    var code: Int32
    repeat { code = unsafe waitpid(process, &status, WNOHANG) } while code < 0 && errno == EINTR
    return code == process ? ProcessExit(waitStatus: status) : nil
}

/// Starts a process group. `descriptors` become standard input, output and error. Returns its number, or an error's.
func spawn(_ command: ChildCommand, _ descriptors: [Int32]) -> (process: Int32, code: Int32) {
    #if os(Linux) || os(macOS)
        #if os(Linux)
            var (actions, attributes) = unsafe (posix_spawn_file_actions_t(), posix_spawnattr_t())
        #else
            var (actions, attributes): (posix_spawn_file_actions_t?, posix_spawnattr_t?) = unsafe (nil, nil)
        #endif
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        unsafe posix_spawnattr_init(&attributes)
        defer { unsafe posix_spawnattr_destroy(&attributes) }
        var code: Int32 = 0
        for (number, descriptor) in descriptors.enumerated() where code == 0 {
            code = unsafe posix_spawn_file_actions_adddup2(&actions, descriptor, Int32(number))
        }
        if code == 0, let directory = command.workingDirectory {
            #if os(Linux)
                code = unsafe trunkline_spawn_in_directory(&actions, directory)
            #else
                code = unsafe posix_spawn_file_actions_addchdir_np(&actions, directory)
            #endif
        }
        var flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK
        #if os(Linux)
            if code == 0 { code = unsafe trunkline_spawn_without_others(&actions) }
        #else
            flags |= POSIX_SPAWN_CLOEXEC_DEFAULT
        #endif
        guard code == 0 else { return (-1, code) }
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe posix_spawnattr_setsigmask(&attributes, &signals)
        unsafe sigfillset(&signals)
        unsafe sigdelset(&signals, SIGKILL)
        unsafe sigdelset(&signals, SIGSTOP)
        unsafe posix_spawnattr_setsigdefault(&attributes, &signals)
        unsafe posix_spawnattr_setpgroup(&attributes, 0)
        unsafe posix_spawnattr_setflags(&attributes, Int16(flags))
        var arguments = unsafe CTexts(([command.executable] + command.arguments).map { Array($0.utf8CString) })
        var variables = unsafe CTexts(environment(of: command))
        defer {
            unsafe arguments.free()
            unsafe variables.free()
        }
        var process: pid_t = 0
        code = unsafe posix_spawnp(
            &process,
            command.executable,
            &actions,
            &attributes,
            arguments.pointers,
            variables.pointers
        )
        return code == 0 ? (process, 0) : (-1, code)
    #else
        return (-1, ENOTSUP)
    #endif
}

/// `NAME=value` with a zero byte at the end. What is inherited need not be UTF-8.
private func environment(of command: ChildCommand) -> [[CChar]] {
    var texts: [[CChar]] = []
    if command.inheritsEnvironment {
        #if os(Linux)
            var next = unsafe trunkline_environment()
        #else
            var next = unsafe _NSGetEnviron().pointee
        #endif
        while let entry = unsafe next, let text = unsafe entry.pointee {
            let variable = unsafe Array(UnsafeBufferPointer(start: text, count: strlen(text) + 1))
            let name = variable.prefix { $0 != 0x3d && $0 != 0 }.map { UInt8(bitPattern: $0) }
            if command.environment[String(decoding: name, as: UTF8.self)] == nil { texts.append(variable) }
            unsafe next = entry + 1
        }
    }
    return texts
        + command.environment.sorted { $0.key < $1.key }.map { Array("\($0.key)=\($0.value)".utf8CString) }
}

@unsafe
private struct CTexts {
    private(set) var pointers: [UnsafeMutablePointer<CChar>?]

    /// Each ends with a zero byte.
    init(_ texts: [[CChar]]) { unsafe pointers = texts.map { unsafe strdup($0) } + [nil] }

    mutating func free() {
        for index in unsafe pointers.indices { unsafe systemFree(pointers[index]) }
        unsafe pointers = []
    }
}

private func systemFree(_ pointer: UnsafeMutablePointer<CChar>?) { unsafe free(pointer) }
