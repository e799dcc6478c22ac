import Testing
import Trunkline

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// What the package itself writes must not end the program of the user.
@Suite(.tags(.realThreads)) struct StandardErrorTests {
    /// `server 2>&1 | head`: nothing reads standard error any more. SIGPIPE would end this process.
    @Test func aPipeWithoutAReaderIsHarmless() {
        var ends: [Int32] = [-1, -1]
        #expect(unsafe pipe(&ends) == 0)
        close(ends[0])
        writeToStandardError("lost\n", descriptor: ends[1])
        close(ends[1])
        // The signal is neither pending nor blocked afterwards.
        var (pending, blocked) = (sigset_t(), sigset_t())
        unsafe sigpending(&pending)
        unsafe pthread_sigmask(SIG_BLOCK, nil, &blocked)
        #expect(unsafe sigismember(&pending, SIGPIPE) == 0 && sigismember(&blocked, SIGPIPE) == 0)
    }

    @Test func aClosedDescriptorIsHarmless() { writeToStandardError("lost\n", descriptor: -1) }

    @Test func theTextIsWritten() {
        var ends: [Int32] = [-1, -1]
        #expect(unsafe pipe(&ends) == 0)
        writeToStandardError("text\n", descriptor: ends[1])
        close(ends[1])
        var bytes = [UInt8](repeating: 0, count: 16)
        let count = unsafe read(ends[0], &bytes, bytes.count)
        close(ends[0])
        #expect(String(decoding: bytes.prefix(max(0, count)), as: UTF8.self) == "text\n")
    }
}
