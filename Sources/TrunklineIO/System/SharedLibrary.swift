import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A library that is loaded at run time, so that a program can run without it. It is never unloaded.
///
/// Safe to share between threads: the handle never changes, and dlsym(3) is thread-safe.
@safe
struct SharedLibrary: @unchecked Sendable {
    let handle: UnsafeMutableRawPointer

    /// Loads the first library of `names` that exists. Returns `nil` if none exists.
    ///
    /// A name is a file name for the system's search path, or a path.
    init?(firstOf names: [String]) {
        for name in names {
            if let handle = unsafe dlopen(name, RTLD_NOW | RTLD_LOCAL) {
                unsafe self.handle = handle
                return
            }
        }
        return nil
    }

    /// Returns the function with this name, which must have the type `Function`, or `nil` if the library lacks it.
    func function<Function>(_ name: String, as type: Function.Type) -> Function? {
        guard let address = unsafe dlsym(handle, name) else { return nil }
        return unsafe unsafeBitCast(address, to: type)
    }
}

/// What a shared library gives, loaded on first use and then kept.
///
/// A failure is kept too, unless there was no free file descriptor: loading needs one. Then the next use tries again.
final class LoadedOnce<Loaded: AnyObject & Sendable>: Sendable {
    private let reference = AtomicLazyReference<Loaded>()
    private let failure = Lock<TransportError?>(nil)
    private let load: @Sendable () throws(TransportError) -> Loaded

    init(_ load: @escaping @Sendable () throws(TransportError) -> Loaded) { self.load = load }

    /// What was loaded; `nil` before the first use, and if loading has failed.
    var loaded: Loaded? { reference.load() }

    /// Loads it, unless that is done. Blocks meanwhile.
    ///
    /// - Throws: The error of `load`, with an error number if there was no free file descriptor.
    func get() throws(TransportError) -> Loaded {
        if let loaded { return loaded }
        failure.lock()
        defer { failure.unlock() }
        if let loaded { return loaded }
        if let known = failure.state { throw known }
        do throws(TransportError) {
            return reference.storeIfNil(try load())
        } catch {
            if !error.isDescriptorShortage { failure.state = error }
            throw error
        }
    }
}

/// Why the latest call of dlopen(3) on this thread has failed, if there was no free file descriptor: `EMFILE` or
/// `ENFILE`. `nil` for other reasons.
func shortageWhileLoading() -> Int32? {
    let message = unsafe dlerror().map { unsafe String(cString: $0) } ?? ""
    let named = [EMFILE, ENFILE].first { code in
        unsafe strerror(code).map { message.contains(unsafe String(cString: $0)) } ?? false
    }
    return named ?? descriptorShortage()
}
