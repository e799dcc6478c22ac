import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Loaded at run time, so that a program can run without it, and never unloaded.
///
/// Safe to share between threads: the handle never changes, and dlsym(3) is thread-safe.
@safe
struct SharedLibrary: @unchecked Sendable {
    let handle: UnsafeMutableRawPointer

    init?(firstOf names: [String]) {
        for name in names {
            if let handle = unsafe dlopen(name, RTLD_NOW | RTLD_LOCAL) {
                unsafe self.handle = handle
                return
            }
        }
        return nil
    }

    /// The function must have the type `Function`.
    func function<Function>(_ name: String, as type: Function.Type) -> Function? {
        guard let address = unsafe dlsym(handle, name) else { return nil }
        return unsafe unsafeBitCast(address, to: type)
    }
}

/// Loads on first use. A failure is kept too, unless there was no free file descriptor: the next use tries again.
final class LoadedOnce<Loaded: AnyObject & Sendable>: Sendable {
    private let reference = AtomicLazyReference<Loaded>()
    private let failure = Lock<TransportError?>(nil)
    private let load: @Sendable () throws(TransportError) -> Loaded

    init(_ load: @escaping @Sendable () throws(TransportError) -> Loaded) { self.load = load }

    var loaded: Loaded? { reference.load() }

    /// Blocks while loading. The error has an error number if there was no free file descriptor.
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

/// `EMFILE` or `ENFILE` if the latest dlopen(3) on this thread failed for want of a descriptor.
func shortageWhileLoading() -> Int32? {
    let message = unsafe dlerror().map { unsafe String(cString: $0) } ?? ""
    let named = [EMFILE, ENFILE].first { code in
        unsafe strerror(code).map { message.contains(unsafe String(cString: $0)) } ?? false
    }
    return named ?? descriptorShortage()
}
