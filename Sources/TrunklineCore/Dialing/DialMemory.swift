/// What the dialers of one connection leave to later ones. Unchecked Sendable: used only on the connection's loop.
package final class DialMemory: @unchecked Sendable {
    var lateLookups = LateLookups()
    var loadedTLS: LoadedTLS?
    weak var dialer: SocketDialer?
    /// Addresses that did not answer when others of their name did, and until when they are tried last.
    private var silent: [SocketAddress: Instant] = [:]

    package static let longestSilence = Duration.seconds(600)
    private static let maximumSilent = 64

    func silentAddresses(at now: Instant) -> Set<SocketAddress> {
        if !silent.isEmpty { silent = silent.filter { $0.value > now } }
        return Set(silent.keys)
    }

    func note(_ passedOver: [AddressRace.Failure], insteadOf address: SocketAddress, at now: Instant) {
        silent[address] = nil
        for failure in passedOver {
            guard let address = failure.address, silent[address] != nil || silent.count < Self.maximumSilent else {
                continue
            }
            silent[address] = now.advanced(by: Self.longestSilence)
        }
    }

    func answered(_ endpoint: Endpoint, _ family: AddressFamily, _ answer: NameLookup.Answer, at now: Instant) {
        lateLookups.answered(endpoint, family, answer, at: now)
        // A failure says nothing about the look-up that the present dialer has begun.
        guard let dialer, case .success = answer, dialer.isWaiting(for: family, of: endpoint) else { return }
        _ = lateLookups.takeAnswer(endpoint, family, at: now)
        dialer.resolved(family, answer)
    }
}
