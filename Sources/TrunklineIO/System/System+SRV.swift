#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// resolver(3), looked up at run time: glibc has it in libc since 2.34 and in libresolv before; Darwin has a number in
/// the names; musl has only `res_search`. Safe: functions of libraries that are never unloaded.
@safe
private enum ResolverFunctions {
    typealias Begin = @convention(c) (UnsafeMutableRawPointer) -> Int32
    typealias End = @convention(c) (UnsafeMutableRawPointer) -> Void
    typealias SearchWith =
        @convention(c) (
            UnsafeMutableRawPointer, UnsafePointer<CChar>, Int32, Int32, UnsafeMutablePointer<UInt8>, Int32
        ) -> Int32
    typealias Search =
        @convention(c) (
            UnsafePointer<CChar>, Int32, Int32, UnsafeMutablePointer<UInt8>, Int32
        ) -> Int32

    case ownState(Begin, SearchWith, End)
    case threadState(Search)

    static let shared: ResolverFunctions? = {
        #if canImport(Darwin)
            let (files, prefixes) = (["/usr/lib/libresolv.9.dylib"], ["res_9_"])
            let end = "ndestroy"
        #else
            let (files, prefixes) = (["libc.so.6", "libresolv.so.2", "libc.so"], ["res_", "__res_"])
            let end = "nclose"
        #endif
        let libraries = files.compactMap { SharedLibrary(firstOf: [$0]) }
        func find<Function>(_ name: String, as type: Function.Type) -> Function? {
            for library in libraries {
                for prefix in prefixes {
                    if let function = library.function(prefix + name, as: type) { return function }
                }
            }
            return nil
        }
        if let begin = unsafe find("ninit", as: Begin.self), let search = unsafe find("nsearch", as: SearchWith.self),
            let end = unsafe find(end, as: End.self)
        {
            return unsafe .ownState(begin, search, end)
        }
        return unsafe find("search", as: Search.self).map { unsafe .threadState($0) }
    }()

    /// glibc's state has 568 bytes, Darwin's 552.
    static let stateSize = 4096
}

/// Blocks, possibly for a minute: never call this on a loop. Tests `configure` a `struct __res_state`.
@Sendable
package func systemSearchSRV(
    _ name: String,
    configuring configure: (UnsafeMutableRawPointer) -> Void = { _ in }
) -> Result<[UInt8], TransportError> {
    let doing = "asking for the SRV records of \(name.escaped())"
    func failure(_ reason: String) -> Result<[UInt8], TransportError> {
        // Without a descriptor, the system asks no name server.
        let shortage = descriptorShortage()
        let reason = shortage.map(systemMessage) ?? reason
        return .failure(TransportError(.nameResolutionFailed, errno: shortage ?? 0, "\(doing): \(reason)"))
    }
    // The system would read the NUL byte as the end of the name, and ask for another one.
    guard !name.isEmpty, !name.hasZeroByte else { return failure("invalid name: empty, or contains a NUL byte") }
    guard let functions = ResolverFunctions.shared else {
        return failure("the system's library has neither res_nsearch nor res_search")
    }
    let (internet, srv): (Int32, Int32) = (1, 33)
    // The largest message. A shorter buffer would cut it.
    var answer = [UInt8](repeating: 0, count: 65_536)
    var code: Int32 = 0
    let length = unsafe answer.withUnsafeMutableBufferPointer { buffer -> Int32 in
        guard let start = buffer.baseAddress else { return -1 }
        let size = Int32(buffer.count)
        switch functions {
        case .threadState(let search):
            let length = unsafe search(name, internet, srv, start, size)
            code = lastResolverError()
            return length
        case .ownState(let begin, let search, let end):
            return unsafe withUnsafeTemporaryAllocation(
                byteCount: ResolverFunctions.stateSize,
                alignment: 16
            ) { state in
                guard let state = state.baseAddress else { return -1 }
                unsafe memset(state, 0, ResolverFunctions.stateSize)
                guard unsafe begin(state) == 0 else { return -1 }
                unsafe configure(state)
                let length = unsafe search(state, name, internet, srv, start, size)
                code = lastResolverError()
                unsafe end(state)
                return length
            }
        }
    }
    guard length >= 0 else { return failure(resolverMessage(code)) }
    return .success(Array(answer.prefix(Int(length))))
}

private func lastResolverError() -> Int32 {
    #if os(Linux)
        unsafe __h_errno_location().pointee
    #else
        0  // a variable that all threads share
    #endif
}

private func resolverMessage(_ code: Int32) -> String {
    switch code {
    case 1: "the name does not exist"
    case 2: "no name server answered"
    case 3: "the name server failed"
    case 4: "the name has no SRV records"
    default: "no name server answered, or the name has no SRV records"
    }
}
