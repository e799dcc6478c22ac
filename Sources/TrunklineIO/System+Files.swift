package import TrunklineCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Tells two states of a file apart.
package struct FileVersion: Hashable, Sendable {
    private let device: UInt64
    private let inode: UInt64
    private let size: Int64
    /// Seconds and nanoseconds of the last change to it.
    private let changed: [Int64]

    /// `nil` when there is no such file, or it cannot be asked about.
    init?(ofFile path: String) {
        var status = stat()
        guard !path.hasZeroByte, unsafe stat(path, &status) == 0 else { return nil }
        device = UInt64(truncatingIfNeeded: status.st_dev)
        inode = UInt64(status.st_ino)
        size = Int64(status.st_size)
        #if canImport(Darwin)
            changed = [Int64(status.st_ctimespec.tv_sec), Int64(status.st_ctimespec.tv_nsec)]
        #else
            changed = [Int64(status.st_ctim.tv_sec), Int64(status.st_ctim.tv_nsec)]
        #endif
    }
}

/// The bytes of a regular file of up to `limit` bytes. What is none (a FIFO, a terminal, a socket, a directory) is refused: to
/// open or to read it could take for ever.
func contents(ofFile path: String, limit: Int) -> Result<[UInt8], TransportError> {
    guard !path.hasZeroByte else { return .failure(pathError("reading \(path)")) }
    // To open a FIFO without O_NONBLOCK waits for a writer. Regular files do not care.
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { return .failure(transportError(errno, "reading \(path)")) }
    defer { closeDescriptor(descriptor) }
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { return .failure(transportError(errno, "reading \(path)")) }
    guard status.st_mode & S_IFMT == S_IFREG else {
        return .failure(TransportError(.system, errno: EINVAL, "reading \(path): it is no regular file"))
    }
    var bytes: [UInt8] = []
    while bytes.count <= limit {
        let (count, code) = unsafe withUnsafeTemporaryAllocation(byteCount: 16384, alignment: 8) { memory in
            let count = unsafe Int(systemRead(descriptor, memory))
            let code = errno
            if count > 0 { unsafe bytes.append(contentsOf: memory[..<count]) }
            return (count, code)
        }
        if count == 0 { return .success(bytes) }
        if count < 0, code != EINTR { return .failure(transportError(code, "reading \(path)")) }
    }
    return .failure(TransportError(.system, errno: EFBIG, "reading \(path): it has more than \(limit) bytes"))
}

/// The error for a path that the system would see end at its zero byte.
func pathError(_ doing: String) -> TransportError {
    TransportError(.system, errno: EINVAL, "\(doing): there is a zero byte in the path")
}

/// Makes a file of these bytes that its owner alone may read; there must be none yet.
package func createFile(at path: String, with bytes: [UInt8]) throws(TransportError) {
    guard !path.hasZeroByte else { throw pathError("creating \(path)") }
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw transportError(errno, "creating \(path)") }
    defer { closeDescriptor(descriptor) }
    var start = 0
    while start < bytes.count {
        let (count, code) = unsafe bytes.withUnsafeBytes { memory in
            let rest = unsafe memory[start...]
            let count = unsafe write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
            return (count, errno)
        }
        if count > 0 { start += count } else if code != EINTR { throw transportError(code, "writing \(path)") }
    }
}

private func systemRead(_ descriptor: Int32, _ memory: UnsafeMutableRawBufferPointer) -> Int {
    unsafe read(descriptor, memory.baseAddress, memory.count)
}
