import Testing
import Trunkline

@testable import TrunklineIO

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// What the package itself writes must not end the program of the user.
@Suite(.tags(.realThreads)) struct StandardErrorTests {}

extension StandardErrorTests {
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

    /// Regression: a signal that interrupted a write lost the rest of the text.
    @Test func aSignalDoesNotEndTheText() {
        var results = [-1, 2, -1, -1, 3]
        var taken: [UInt8] = []
        let code = unsafe Array("error".utf8).withUnsafeBytes { bytes in
            unsafe writeFully(bytes) { rest, offset in
                let count = results.removeFirst()
                #expect(offset == taken.count && rest.count == 5 - offset)
                if count < 0 { errno = EINTR } else { unsafe taken.append(contentsOf: rest[..<count]) }
                return count
            }
        }
        #expect(code == 0 && results.isEmpty && taken == Array("error".utf8))
        let failure = unsafe [1].withUnsafeBytes { bytes in
            unsafe writeFully(bytes) { _, _ in
                errno = ENOSPC
                return -1
            }
        }
        #expect(failure == ENOSPC)
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
