/// The results that the dialers of one connection leave to later ones.
///
/// Safe to share between threads: after its creation it is used on the loop of its connection only.
package final class DialMemory: @unchecked Sendable {
    /// The look-ups that have outlasted their dialers.
    var lateLookups = LateLookups()
    /// The TLS settings; `nil` before they were needed.
    var loadedTLS: LoadedTLS?
    /// The dialer at work.
    weak var dialer: SocketDialer?
    /// The addresses that did not answer when others of their name did, and until when they are tried last.
    private var silent: [SocketAddress: Instant] = [:]

    /// How long an address is tried last.
    package static let longestSilence = Duration.seconds(600)
    private static let maximumSilent = 64

    func silentAddresses(at now: Instant) -> Set<SocketAddress> {
        if !silent.isEmpty { silent = silent.filter { $0.value > now } }
        return Set(silent.keys)
    }

    /// Notes that the link uses `address` instead of others, which failed or did not answer.
    func note(_ passedOver: [AddressRace.Failure], insteadOf address: SocketAddress, at now: Instant) {
        silent[address] = nil
        for failure in passedOver {
            guard let address = failure.address, silent[address] != nil || silent.count < Self.maximumSilent else {
                continue
            }
            silent[address] = now.advanced(by: Self.longestSilence)
        }
    }

    /// Stores the answer to a look-up whose dialer is done, and passes it to the present one.
    func answered(_ endpoint: Endpoint, _ family: AddressFamily, _ answer: NameLookup.Answer, at now: Instant) {
        lateLookups.answered(endpoint, family, answer, at: now)
        // A failure says nothing about the look-up that the present dialer has begun.
        guard let dialer, case .success = answer, dialer.isWaiting(for: family, of: endpoint) else { return }
        _ = lateLookups.takeAnswer(endpoint, family, at: now)
        dialer.resolved(family, answer)
    }
}
