// The entry points for libFuzzer. The environment names the target, so that one program contains them all: building
// takes longer than fuzzing. `.ci/fuzz` builds and runs the program.

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

private let target: FuzzTarget = {
    let name = unsafe getenv("TRUNKLINE_FUZZ_TARGET").map { unsafe String(cString: $0) } ?? ""
    guard let target = FuzzTarget(rawValue: name) else {
        fatalError("TRUNKLINE_FUZZ_TARGET is one of \(FuzzTarget.allCases.map(\.rawValue))")
    }
    return target
}()

/// One execution. Any error ends the process, and libFuzzer keeps the input.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let bytes = unsafe UnsafeBufferPointer(start: data, count: count)
    target.run(FuzzInput(bytes: unsafe Array(bytes)[...]))
    return 0
}
