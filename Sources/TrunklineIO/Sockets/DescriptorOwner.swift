/// Closes two descriptors of the user when it is deallocated, unless a link has taken them.
final class DescriptorOwner: Sendable {
    private let descriptors: Set<Int32>
    private let state = Lock(State())

    private struct State {
        var isTaken = false
        var failure: TransportError?
    }

    init(_ descriptors: Set<Int32>) { self.descriptors = descriptors }

    deinit {
        guard take() else { return }
        for descriptor in descriptors where descriptor >= 0 { retire(descriptor, flags: -1) }
    }

    func take() -> Bool { state.withLock { state in !exchange(&state.isTaken, with: true) } }

    var failure: TransportError? {
        get { state.withLock { $0.failure } }
        set { state.withLock { $0.failure = newValue } }
    }
}

extension Endpoint {
    /// Creates an endpoint from two open descriptors: pipes, sockets or terminals, not files.
    ///
    /// For a channel that your program has got elsewhere: a `socketpair(2)`, the standard input and output of a program
    /// that is itself started by its client, a terminal, or a socket that another process has passed.
    ///
    /// The endpoint owns the descriptors. It sets them to non-blocking mode for as long as it has them, and closes them
    /// when its link ends, or, if it was never used, when its last copy is gone. In place of 0, 1 and 2, the null
    /// device is then open.
    ///
    /// It serves one link. Afterwards an attempt fails with ``TransportError/Code-swift.enum/invalidAddress``, a
    /// permanent error. It has no text that ``init(parsing:)`` reads, and equals only its copies. ``secured()`` needs
    /// `options.tls.serverName`.
    ///
    /// - Parameters:
    ///   - reading: What the server writes is read here.
    ///   - writing: What the server reads is written here. It may be the same descriptor as `reading`.
    public static func descriptors(reading: Int32, writing: Int32) -> Endpoint {
        let owner = DescriptorOwner([reading, writing])
        return Endpoint(target: .descriptors(DescriptorPair(reading: reading, writing: writing, owner: owner)))
    }
}
