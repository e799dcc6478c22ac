#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Only this process's user may read it. Deleted with this object. Calls may block on the disk: not for loops or tasks.
package final class TemporaryFile: Sendable {
    package let path: String
    private let descriptor: Int32
    private let isNamed: Bool
    private let later: @Sendable (@escaping @Sendable () -> Void) -> Void

    /// A file without a name does not outlive a crash. `later` runs the closing, by default at once: it may take long
    /// to free gigabytes, and the last reference may end on a loop or under a lock.
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
        // Quick while the file is open. So no file is left if the process ends now.
        if isNamed { unsafe unlink(path) }
        let descriptor = descriptor
        later { closeDescriptor(descriptor) }
    }

    package func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(TransportError) {
        let code = unsafe writeFully(bytes) { rest, written in
            unsafe pwrite(descriptor, rest.baseAddress, rest.count, off_t(offset + written))
        }
        guard code == 0 else { throw transportError(code, "writing \(path)") }
    }

    package func read(into memory: UnsafeMutableRawBufferPointer, at offset: Int) throws(TransportError) -> Int {
        try unsafe readFully(descriptor, into: memory, at: offset, of: path)
    }

    package func empty() { ftruncate(descriptor, 0) }
}
