import CTrunklineBench

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

struct Usage {
    /// Monotonic, in nanoseconds.
    var time: UInt64
    /// Processor time, in microseconds.
    var user: Int
    var system: Int
    /// Negative if allocations are not counted.
    var allocations: Int

    static var now: Usage {
        var usage = rusage()
        #if os(Linux)
            unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        #else
            unsafe getrusage(RUSAGE_SELF, &usage)
        #endif
        return Usage(
            time: monotonicNow(),
            user: microseconds(usage.ru_utime),
            system: microseconds(usage.ru_stime),
            allocations: Int(trunkline_bench_allocations())
        )
    }

    private static func microseconds(_ time: timeval) -> Int { Int(time.tv_sec) * 1_000_000 + Int(time.tv_usec) }

    /// In kilobytes.
    static var peakMemory: Int {
        #if os(Linux)
            // Not ru_maxrss: it is inherited from the parent process.
            return status("VmHWM:")
        #else
            var usage = rusage()
            unsafe getrusage(RUSAGE_SELF, &usage)
            return usage.ru_maxrss / 1024
        #endif
    }

    /// In kilobytes; 0 if unknown.
    static var residentMemory: Int { status("VmRSS:") }

    private static func status(_ name: String) -> Int {
        for line in contents(of: "/proc/self/status").split(separator: "\n") where line.hasPrefix(name) {
            return line.split { !$0.isNumber }.first.flatMap { Int($0) } ?? 0
        }
        return 0
    }
}

/// In nanoseconds.
func monotonicNow() -> UInt64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// Of this thread, in nanoseconds.
func processorNow() -> UInt64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// At most 64 KiB; empty if the file cannot be read.
func contents(of path: String) -> String {
    let descriptor = unsafe open(path, O_RDONLY)
    guard descriptor >= 0 else { return "" }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 65536)
    let count = unsafe read(descriptor, &bytes, bytes.count)
    return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
}

func machineDescription() -> String {
    let processors = sysconf(Int32(_SC_NPROCESSORS_ONLN))
    var parts = ["\(processors) processors"]
    let models = contents(of: "/proc/cpuinfo").split(separator: "\n").filter { $0.hasPrefix("model name") }
    if let model = models.first?.split(separator: ":").last { parts[0] += " (\(model.drop { $0 == " " }))" }
    var names = utsname()
    if unsafe uname(&names) == 0 {
        parts.append("\(text(names.sysname)) \(text(names.release)) \(text(names.machine))")
    }
    #if compiler(>=6.4)
        parts.append("Swift 6.4 or later")
    #elseif compiler(>=6.3)
        parts.append("Swift 6.3")
    #else
        parts.append("Swift 6.2")
    #endif
    #if DEBUG
        parts.append("a DEBUG build: use -c release")
    #endif
    return parts.joined(separator: ", ")
}

private func text<Characters>(_ characters: Characters) -> String {
    unsafe withUnsafeBytes(of: characters) { unsafe String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
}
