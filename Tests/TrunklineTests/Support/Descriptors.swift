import Testing

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

    fileprivate static func setLimit(_ count: UInt64) {
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

    /// Lets this process open no further descriptor: not even one in place of another that it closes. Those that are
    /// open go on to work.
    static func exhaust() throws -> Shortage {
        let shortage = Shortage(usual: try #require(limit()))
        setLimit(0)
        return shortage
    }

    /// The process has no free descriptor, until this is ended.
    struct Shortage {
        fileprivate let usual: UInt64

        func end() { setLimit(usual) }
    }
}
