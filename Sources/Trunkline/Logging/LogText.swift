/// An error of this package whose description may be logged.
package protocol LoggableError: Error, CustomStringConvertible {}

/// Texts of errors for the log: without anything that code outside this package may have put into them.
enum LogText {
    /// The error in one line. Of an error that this package does not know, only its type: its description may contain
    /// anything.
    static func of(_ error: any Error) -> String {
        switch error {
        case let error as TransportError:
            error.code == .tls(.noPassphrase) ? "the passphrase closure failed" : error.message
        case let error as FrameError: "\(error)"
        case let error as HandshakeRefusal: "\(error)"
        case let error as ClientError: of(error)
        case let error as any LoggableError: "\(error)"
        default: "an error of the type \(type(of: error))".escaped()
        }
    }

    /// The same, with the code of an error of the transport.
    static func labelled(_ error: any Error) -> String {
        guard let known = error as? TransportError, known.code != .tls(.noPassphrase) else { return of(error) }
        return "\(known)"
    }

    private static func of(_ error: ClientError) -> String {
        error.text(of: error.cause.map { of($0) })
    }

    /// `1 request`, `2 requests`.
    static func count(_ number: Int, _ noun: String, _ plural: String? = nil) -> String {
        number == 1 ? "1 \(noun)" : "\(grouped(number)) \(plural ?? noun + "s")"
    }

    /// The number with commas between groups of three digits.
    static func grouped(_ number: Int) -> String {
        var digits = "\(number.magnitude)"
        var groups: [String] = []
        while digits.count > 3 {
            groups.insert(String(digits.suffix(3)), at: 0)
            digits.removeLast(3)
        }
        return (number < 0 ? "-" : "") + ([digits] + groups).joined(separator: ",")
    }

    /// `50 timedOut (fate unknown), 7 closed (not sent)`: the most frequent first.
    static func list(_ counts: [String: Int]) -> String {
        counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { "\(grouped($0.value)) \($0.key)" }
            .joined(separator: ", ")
    }

    /// `the latest, 4 s ago`: how a summary introduces an example that happened at `time`. `the latest` if that is now.
    static func latest(_ time: Instant?, at now: Instant) -> String {
        guard let time, now.since(time) >= .seconds(1) else { return "the latest" }
        return "the latest, \(LogText.time(now.since(time))) ago"
    }

    /// The duration in the unit that suits it, also minutes and hours.
    static func time(_ duration: Duration) -> String {
        let seconds = duration.inSeconds
        if seconds < 120 { return duration.text }
        let (value, unit) =
            switch seconds {
            case ..<7200: (seconds / 60, "min")
            case ..<172_800: (seconds / 3600, "h")
            default: (seconds / 86_400, "days")
            }
        let rounded = (value * 10).rounded() / 10
        return (rounded == rounded.rounded() ? "\(Int(rounded))" : "\(rounded)") + " " + unit
    }
}
