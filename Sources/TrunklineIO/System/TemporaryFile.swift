#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A file that only this process's user may read. It is deleted when this object is deallocated.
///
/// Every call may block on the disk: do not use this on event loops or on the cooperative pool. Deallocation need not
/// block: see `init`.
package final class TemporaryFile: Sendable {
    /// The path of the file. Meaningless if the file was created without a name.
    package let path: String
    private let descriptor: Int32
    private let isNamed: Bool
    private let later: @Sendable (@escaping @Sendable () -> Void) -> Void

    /// Creates an empty file in `directory`.
    ///
    /// - Parameters:
    ///   - isNamed: Whether others can find the file at `path`. If false, its name is removed at once, so the file does
    ///     not even outlive a crash of this process.
    ///   - later: Runs the closure that closes the file; by default at once. A file system may take long to free
    ///     gigabytes when the last descriptor is closed, and the last reference may be released on an event loop or
    ///     under a lock.
    package init(
        in directory: String,
        isNamed: Bool,
        closing later: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void = { $0() }
    ) throws(TransportError) {
        guard !directory.hasZeroByte else { throw pathError("creating a file in \(directory)") }
        var (path, descriptor, code) = ("", Int32(-1), EEXIST)
        // One of 2⁶⁴ names: one attempt is enough.
        for _ in 0..<4 where descriptor < 0 && code == EEXIST {
            path = "\(directory)/trunkline-\(String(UInt64.random(in: 0 ... .max), radix: 36))"
            descriptor = unsafe open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            code = errno
        }
        guard descriptor >= 0 else { throw transportError(code, "creating a file in \(directory)") }
        self.descriptor = descriptor
        self.isNamed = isNamed
        self.later = later
        self.path = path
        if !isNamed { unsafe unlink(path) }
    }

    deinit {
        // Removes the name at once, which is quick while the file is open. So no file is left if the process ends now.
        if isNamed { unsafe unlink(path) }
        let descriptor = descriptor
        later { closeDescriptor(descriptor) }
    }

    /// Writes all of `bytes` at `offset`.
    package func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(TransportError) {
        var written = 0
        while written < bytes.count {
            let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes[written...])
            let count = unsafe pwrite(descriptor, rest.baseAddress, rest.count, off_t(offset + written))
            let code = errno
            if count > 0 { written += count } else if code != EINTR { throw transportError(code, "writing \(path)") }
        }
    }

    /// Fills `memory` from `offset`. Returns the number of bytes read, which is smaller at the end of the file.
    package func read(into memory: UnsafeMutableRawBufferPointer, at offset: Int) throws(TransportError) -> Int {
        try unsafe readFully(descriptor, into: memory, at: offset, of: path)
    }

    /// Truncates the file, which frees its disk space.
    package func empty() { ftruncate(descriptor, 0) }
}
