/// What is said on a connection before it belongs to its owner: to a proxy, for example.
package protocol OpeningExchange: Sendable {
    /// Whether it is held with a proxy.
    var isWithProxy: Bool { get }

    /// Returns the bytes to send first on a connection between these addresses, which are `nil` where they are unknown.
    mutating func begin(from local: SocketAddress?, to remote: SocketAddress?) -> [UInt8]

    /// Takes bytes from the front of `input`, which may be empty. What does not belong to the exchange stays there.
    mutating func receive(_ input: inout ArraySlice<UInt8>) throws(TransportError) -> OpeningStep
}

package enum OpeningStep: Sendable, Equatable {
    /// More bytes are needed.
    case wait
    case send([UInt8])
    /// The exchange is over: the rest of the input, and everything after it, is for the owner.
    case done
}
