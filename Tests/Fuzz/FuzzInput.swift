/// The fuzzer's bytes: the first ones are decisions, the rest is traffic.
struct FuzzInput {
    var bytes: ArraySlice<UInt8>

    mutating func next() -> UInt8 { bytes.popFirst() ?? 0 }

    /// A number below `count`, which is 1 to 256.
    mutating func below(_ count: Int) -> Int { Int(next()) % count }

    /// The remaining bytes, cut into at most three pieces at two places that the input chooses.
    mutating func pieces() -> [ArraySlice<UInt8>] {
        let (first, second) = (Int(next()), Int(next()))
        let one = bytes.startIndex + min(first, bytes.count)
        let two = one + min(second, bytes.endIndex - one)
        return [bytes[..<one], bytes[one..<two], bytes[two...]]
    }
}
