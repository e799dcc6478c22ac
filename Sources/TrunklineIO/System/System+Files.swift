#if os(Linux)
    import CTrunkline
#endif

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

package struct FileVersion: Hashable, Sendable {
    private let device: UInt64
    private let inode: UInt64
    private let size: Int64
    /// The ctime, in nanoseconds since 1970.
    private let changed: Int64

    package init?(ofFile path: String) {
        var status = stat()
        guard !path.hasZeroByte, unsafe stat(path, &status) == 0 else { return nil }
        device = UInt64(truncatingIfNeeded: status.st_dev)
        inode = UInt64(status.st_ino)
        size = Int64(status.st_size)
        #if canImport(Darwin)
            changed = nanoseconds(of: status.st_ctimespec)
        #else
            changed = nanoseconds(of: status.st_ctim)
        #endif
    }
}

/// Only regular files: opening or reading a FIFO, a terminal or a socket could block forever.
package func contents(ofFile path: String, limit: Int) -> Result<[UInt8], TransportError> {
    let descriptor: Int32
    do throws(TransportError) { descriptor = try openRegularFile(path).descriptor } catch { return .failure(error) }
    defer { closeDescriptor(descriptor) }
    var bytes: [UInt8] = []
    while bytes.count <= limit {
        let (count, code) = unsafe withUnsafeTemporaryAllocation(byteCount: 16384, alignment: 8) { memory in
            let count = unsafe readDescriptor(descriptor, into: memory)
            let code = errno
            if count > 0 { unsafe bytes.append(contentsOf: memory[..<count]) }
            return (count, code)
        }
        if count == 0 { return .success(bytes) }
        if count < 0, code != EINTR { return .failure(transportError(code, "reading \(path)")) }
    }
    return .failure(TransportError(.system, errno: EFBIG, "reading \(path): the file has more than \(limit) bytes"))
}

private func openRegularFile(_ path: String) throws(TransportError) -> (descriptor: Int32, size: Int) {
    let doing = "reading \(path)"
    guard !path.hasZeroByte else { throw pathError(doing) }
    // Opening a FIFO without O_NONBLOCK waits for a writer. Regular files ignore the flag.
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { throw transportError(errno, doing) }
    var status = stat()
    var failure: TransportError?
    if unsafe fstat(descriptor, &status) != 0 {
        failure = transportError(errno, doing)
    } else if status.st_mode & S_IFMT != S_IFREG {
        failure = TransportError(.system, errno: EINVAL, "\(doing): not a regular file")
    }
    guard let failure else { return (descriptor, Int(status.st_size)) }
    closeDescriptor(descriptor)
    throw failure
}

/// Stays the same file if its path leads to another one later. Calls may block on the disk: not for loops or tasks.
package final class InputFile: Sendable {
    let path: String
    package let count: Int
    private let descriptor: Int32

    package init(at path: String) throws(TransportError) {
        (descriptor, count) = try openRegularFile(path)
        self.path = path
    }

    deinit { closeDescriptor(descriptor) }

    package func read(into memory: UnsafeMutableRawBufferPointer, at offset: Int) throws(TransportError) -> Int {
        try unsafe readFully(descriptor, into: memory, at: offset, of: path)
    }
}

func readFully(
    _ descriptor: Int32,
    into memory: UnsafeMutableRawBufferPointer,
    at offset: Int,
    of path: String
) throws(TransportError) -> Int {
    var filled = 0
    while filled < memory.count {
        let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: memory[filled...])
        let count = unsafe pread(descriptor, rest.baseAddress, rest.count, off_t(offset + filled))
        let code = errno
        if count == 0 { break }
        if count > 0 { filled += count } else if code != EINTR { throw transportError(code, "reading \(path)") }
    }
    return filled
}

/// The system would end the path at the NUL byte.
func pathError(_ doing: String) -> TransportError {
    TransportError(.system, errno: EINVAL, "\(doing): the path contains a NUL byte")
}

package func createFile(at path: String, with bytes: [UInt8]) throws(TransportError) {
    guard !path.hasZeroByte else { throw pathError("creating \(path)") }
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw transportError(errno, "creating \(path)") }
    defer { closeDescriptor(descriptor) }
    let code = unsafe bytes.withUnsafeBytes { memory in
        unsafe writeFully(memory) { rest, _ in unsafe write(descriptor, rest.baseAddress, rest.count) }
    }
    guard code == 0 else { throw transportError(code, "writing \(path)") }
}

/// Calls `write` until it has taken all bytes, also after a signal has interrupted it. Returns 0, or the error number.
func writeFully(
    _ bytes: UnsafeRawBufferPointer,
    _ write: (_ rest: UnsafeRawBufferPointer, _ offset: Int) -> Int
) -> Int32 {
    var written = 0
    while written < bytes.count {
        let count = unsafe write(UnsafeRawBufferPointer(rebasing: bytes[written...]), written)
        let code = errno
        if count > 0 { written += count } else if count == 0 || code != EINTR { return count == 0 ? EIO : code }
    }
    return 0
}

package func environmentVariable(_ name: String) -> String? {
    guard let value = unsafe getenv(name) else { return nil }
    return unsafe String(cString: value)
}

func obstacle(toWatching descriptor: Int32) -> String? {
    if isFile(descriptor) { return "a file cannot be watched; use a pipe, a socket or a terminal" }
    #if os(Linux)
        // Of a device such as the null device, epoll says so only when it is asked.
        let epoll = trunkline_epoll_create()
        guard epoll >= 0 else { return nil }
        defer { closeDescriptor(epoll) }
        if trunkline_epoll_watch(epoll, descriptor, 0, 1, 0, 1) != 0, errno == EPERM {
            return "descriptor \(descriptor) is a device that cannot be watched; use a pipe, a socket or a terminal"
        }
    #endif
    return nil
}

private func isFile(_ descriptor: Int32) -> Bool {
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { return false }
    let kind = status.st_mode & S_IFMT
    return kind == S_IFREG || kind == S_IFDIR
}
