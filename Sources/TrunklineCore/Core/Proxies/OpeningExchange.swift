/// What is said on a connection before it belongs to its owner: to a proxy, for example.
package protocol OpeningExchange: Sendable {
    var isWithProxy: Bool { get }

    mutating func begin(from local: SocketAddress?, to remote: SocketAddress?) -> [UInt8]

    /// Takes bytes from the front. What does not belong to the exchange stays in `input`.
    mutating func receive(_ input: inout ArraySlice<UInt8>) throws(TransportError) -> OpeningStep
}

package enum OpeningStep: Sendable, Equatable {
    case wait
    case send([UInt8])
    /// The rest of the input, and everything after it, is for the owner.
    case done
}
