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
