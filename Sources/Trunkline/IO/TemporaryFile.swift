#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A file that only this process's user may read, and that is gone when this is let go.
///
/// Every call may block for as long as the disk does: not for event loops, nor for the cooperative pool. Letting go of one
/// need not: see `init`.
package final class TemporaryFile: Sendable {
    /// Where it is; of no use when it was made without a name.
    package let path: String
    private let descriptor: Int32
    private let isNamed: Bool
    private let later: @Sendable (@escaping @Sendable () -> Void) -> Void

    /// Makes an empty file in `directory`.
    ///
    /// - Parameters:
    ///   - isNamed: Whether others shall find it at `path`. If not, its name is removed at once, and not even the end of
    ///     this process leaves it behind.
    ///   - later: Runs what closes it; at once unless you say otherwise. A file system frees gigabytes while their last
    ///     descriptor is closed, and the last one to let go may be an event loop, or hold a lock.
    package init(
        in directory: String,
        isNamed: Bool,
        closing later: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void = { $0() }
    ) throws(TransportError) {
        guard !directory.hasZeroByte else { throw pathError("making a file in \(directory)") }
        var (path, descriptor, code) = ("", Int32(-1), EEXIST)
        // Of 2⁶⁴ names: once is enough.
        for _ in 0..<4 where descriptor < 0 && code == EEXIST {
            path = "\(directory)/trunkline-\(String(UInt64.random(in: 0 ... .max), radix: 36))"
            descriptor = unsafe open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            code = errno
        }
        guard descriptor >= 0 else { throw transportError(code, "making a file in \(directory)") }
        self.descriptor = descriptor
        self.isNamed = isNamed
        self.later = later
        self.path = path
        if !isNamed { unsafe unlink(path) }
    }

    deinit {
        // At once, and quick while it is open: whoever ends the process next leaves nothing behind.
        if isNamed { unsafe unlink(path) }
        let descriptor = descriptor
        later { closeDescriptor(descriptor) }
    }

    /// Writes `bytes` at `offset`, all of them.
    package func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(TransportError) {
        var written = 0
        while written < bytes.count {
            let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes[written...])
            let count = unsafe pwrite(descriptor, rest.baseAddress, rest.count, off_t(offset + written))
            let code = errno
            if count > 0 { written += count } else if code != EINTR { throw transportError(code, "writing \(path)") }
        }
    }

    /// Fills `memory` from `offset` on. Returns how many bytes there were: fewer at the end of the file.
    package func read(into memory: UnsafeMutableRawBufferPointer, at offset: Int) throws(TransportError) -> Int {
        try unsafe readFully(descriptor, into: memory, at: offset, of: path)
    }

    /// Gives the disk back what the file holds.
    package func empty() { ftruncate(descriptor, 0) }
}
