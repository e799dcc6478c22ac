/// Runs of bytes that are written together.
package typealias BytePieces = UnsafeBufferPointer<UnsafeRawBufferPointer>

extension BytePieces {
    package static func with<Result>(_ piece: UnsafeRawBufferPointer, _ body: (BytePieces) -> Result) -> Result {
        unsafe withUnsafePointer(to: piece) { unsafe body(BytePieces(start: $0, count: 1)) }
    }
}
