#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The limit on the descriptor numbers of this process.
enum Descriptors {
    static func limit() -> UInt64? {
        var limit = rlimit()
        #if os(Linux)
            let code = unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        #else
            let code = unsafe getrlimit(RLIMIT_NOFILE, &limit)
        #endif
        return code == 0 ? UInt64(limit.rlim_cur) : nil
    }

    static func setLimit(_ count: UInt64) {
        var limit = rlimit()
        #if os(Linux)
            unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            limit.rlim_cur = rlim_t(count)
            unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        #else
            unsafe getrlimit(RLIMIT_NOFILE, &limit)
            limit.rlim_cur = rlim_t(count)
            unsafe setrlimit(RLIMIT_NOFILE, &limit)
        #endif
    }

    /// The number that the next descriptor would have.
    static func firstFree() -> UInt64? {
        let descriptor = dup(0)
        guard descriptor >= 0 else { return nil }
        close(descriptor)
        return UInt64(descriptor)
    }
}
