#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A library that is looked for when the program runs, so that a program can do without it. Once found it is kept.
///
/// Sendable although the compiler can't see it: the handle never changes, and looking names up is thread-safe.
@safe
struct SharedLibrary: @unchecked Sendable {
    let handle: UnsafeMutableRawPointer

    /// Loads the first of `names` that there is, each a file name for the system's search path or a path; `nil` when
    /// there is none.
    init?(firstOf names: [String]) {
        for name in names {
            if let handle = unsafe dlopen(name, RTLD_NOW | RTLD_LOCAL) {
                unsafe self.handle = handle
                return
            }
        }
        return nil
    }

    /// The function of this name, which must have the type `Function`; `nil` when the library has none.
    func function<Function>(_ name: String, as type: Function.Type) -> Function? {
        guard let address = unsafe dlsym(handle, name) else { return nil }
        return unsafe unsafeBitCast(address, to: type)
    }
}
