import Testing
import Trunkline

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The resources that this process holds; zeros on systems without `/proc`.
///
/// Measure it in an exit test: other tests of the same process open descriptors and allocate memory.
struct Usage: CustomStringConvertible {
    var descriptors = names(in: "/proc/self/fd").count
    var threads = names(in: "/proc/self/task").count
    var residentKilobytes = Self.residentKilobytes()

    var description: String { "\(descriptors) descriptors, \(threads) threads, \(residentKilobytes) KB" }

    private static func residentKilobytes() -> Int {
        guard case .success(let bytes) = contents(ofProcFile: "/proc/self/statm") else { return 0 }
        let pages = String(decoding: bytes, as: UTF8.self).split(separator: " ").dropFirst().first
        return (pages.flatMap { Int($0) } ?? 0) * Int(sysconf(Int32(_SC_PAGESIZE))) / 1024
    }

    /// Expects that this process soon holds no more than in `self`, except a few descriptors and threads, which Foundation
    /// and the pool may open late, and `kilobytes` of memory. Tests open and close at least ten times as many.
    func expectNoLeak(ofKilobytes kilobytes: Int, sourceLocation: SourceLocation = #_sourceLocation) async {
        let isLeft = await eventually {
            let now = Usage()
            return now.descriptors <= descriptors + 4 && now.threads <= threads + 8
                && now.residentKilobytes - residentKilobytes <= kilobytes
        }
        #expect(isLeft, "before: \(self); after: \(Usage())", sourceLocation: sourceLocation)
    }
}

/// Event loops are never stopped, so all calls share one.
private let asideLoops = EventLoops(count: 1)

/// Runs `body` on a separate thread, one call at a time. An exit test keeps its thread until the child process ends, and the pool has no more
/// threads than the machine has processors.
@discardableResult
func aside<Result: Sendable>(_ body: @Sendable () async -> Result) async -> Result {
    await withTaskExecutorPreference(asideLoops.next().taskExecutor) { await body() }
}

/// Waits until `condition` is true, but no longer than `patience`. Returns whether it was true.
func eventually(_ condition: () -> Bool) async -> Bool {
    let limit = ContinuousClock.now.advanced(by: patience)
    while ContinuousClock.now < limit {
        if condition() { return true }
        await moment()
    }
    return condition()
}

/// The first bytes of a file of `/proc`.
func contents(ofProcFile path: String) -> Result<[UInt8], TransportError> {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return .failure(TransportError(.system, errno: errno, path)) }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = unsafe read(descriptor, &bytes, bytes.count)
    return .success(Array(bytes.prefix(max(0, count))))
}

/// The names of the files of a directory.
func names(in path: String) -> [String] {
    guard let directory = unsafe opendir(path) else { return [] }
    defer { unsafe closedir(directory) }
    var names: [String] = []
    while let entry = unsafe readdir(directory) {
        unsafe withUnsafeBytes(of: entry.pointee.d_name) { bytes in
            unsafe names.append(String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self))
        }
    }
    return names
}
