/// Texts of errors for events and the log: without anything that code outside this package may have put into them.
package enum ErrorText {
    /// Of an error that this package does not know, only its type: its description may contain anything.
    package static func of(_ error: any Error) -> String {
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

    static func labelled(_ error: any Error) -> String {
        guard let known = error as? TransportError, known.code != .tls(.noPassphrase) else { return of(error) }
        return "\(known)"
    }

    private static func of(_ error: ClientError) -> String {
        error.text(of: error.cause.map { of($0) })
    }
}
