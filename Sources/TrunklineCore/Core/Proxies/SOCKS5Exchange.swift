/// SOCKS 5 (RFC 1928), with a user name and a password (RFC 1929) or without. The proxy looks up names.
package struct SOCKS5Exchange: OpeningExchange {
    private enum Stage {
        case method, authentication, reply
    }

    private let host: String
    private let port: UInt16
    /// `nil` for a name.
    private let ip: [UInt8]?
    private let credentials: ProxyCredentials?
    private var stage = Stage.method

    private static let version: UInt8 = 5
    private static let (noAuthentication, password, noMethod): (UInt8, UInt8, UInt8) = (0, 2, 0xFF)

    package init(
        to host: String,
        _ ip: [UInt8]?,
        port: UInt16,
        as credentials: ProxyCredentials?
    ) throws(TransportError) {
        guard ip != nil || 1...255 ~= host.utf8.count else {
            throw TransportError(.invalidAddress, "SOCKS allows names of 1 to 255 bytes (RFC 1928, section 5)")
        }
        if let credentials {
            guard 1...255 ~= credentials.username.utf8.count, credentials.password.utf8.count <= 255 else {
                throw .proxy(
                    .credentialsRefused,
                    "SOCKS allows user names of 1 to 255 bytes, and passwords of at most 255 (RFC 1929, section 2)"
                )
            }
        }
        (self.host, self.ip, self.port, self.credentials) = (host, ip, port, credentials)
    }

    package var isWithProxy: Bool { true }

    package mutating func begin(from local: SocketAddress?, to remote: SocketAddress?) -> [UInt8] {
        let methods = credentials == nil ? [Self.noAuthentication] : [Self.noAuthentication, Self.password]
        return [Self.version, UInt8(methods.count)] + methods
    }

    package mutating func receive(_ input: inout ArraySlice<UInt8>) throws(TransportError) -> OpeningStep {
        switch stage {
        case .method: try chooseMethod(&input)
        case .authentication: try readVerdict(&input)
        case .reply: try readReply(&input)
        }
    }

    private mutating func chooseMethod(_ input: inout ArraySlice<UInt8>) throws(TransportError) -> OpeningStep {
        guard let version = input.first else { return .wait }
        guard version == Self.version else { throw Self.notSOCKS(version) }
        guard let method = input.dropFirst().first else { return .wait }
        input = input.dropFirst(2)
        switch method {
        case Self.noAuthentication: return request()
        case Self.password:
            guard let credentials else {
                // Some proxies choose it although the client has not offered it.
                throw .proxy(
                    .authenticationRequired,
                    "the SOCKS proxy wants a user name and a password, which options.connecting.proxy does not have"
                )
            }
            stage = .authentication
            return .send(
                [1, UInt8(credentials.username.utf8.count)] + Array(credentials.username.utf8)
                    + [UInt8(credentials.password.utf8.count)] + Array(credentials.password.utf8)
            )
        case Self.noMethod where credentials == nil:
            throw .proxy(.authenticationRequired, "the SOCKS proxy wants the client to authenticate")
        case 0x0A...0x7F: throw Self.notSOCKS(method)  // assigned to no method
        default:
            // GSSAPI, another method that RFC 1928, section 3, leaves to others, or none.
            throw .proxy(
                .authenticationRequired,
                "the SOCKS proxy wants another way to authenticate than a user name and a password"
            )
        }
    }

    /// RFC 1929, section 2.
    private mutating func readVerdict(_ input: inout ArraySlice<UInt8>) throws(TransportError) -> OpeningStep {
        guard input.count >= 2 else { return .wait }
        let status = input[input.startIndex + 1]
        input = input.dropFirst(2)
        guard status == 0 else {
            throw .proxy(.credentialsRefused, "the SOCKS proxy does not accept the user name or the password")
        }
        return request()
    }

    /// RFC 1928, section 4.
    private mutating func request() -> OpeningStep {
        stage = .reply
        var bytes: [UInt8] = [Self.version, 1, 0]
        switch ip {
        case let ip? where ip.count == 4: bytes += [1] + ip
        case let ip?: bytes += [4] + ip
        case nil: bytes += [3, UInt8(host.utf8.count)] + Array(host.utf8)
        }
        return .send(bytes + [UInt8(port >> 8), UInt8(port & 0xFF)])
    }

    /// RFC 1928, section 6.
    private func readReply(_ input: inout ArraySlice<UInt8>) throws(TransportError) -> OpeningStep {
        guard input.count >= 2 else { return .wait }
        let (version, reply) = (input[input.startIndex], input[input.startIndex + 1])
        guard version == Self.version else { throw Self.notSOCKS(version) }
        guard reply == 0 else { throw Self.failure(reply) }
        guard input.count >= 5 else { return .wait }
        let size: Int
        switch input[input.startIndex + 3] {
        case 1: size = 4
        case 3: size = 1 + Int(input[input.startIndex + 4])
        case 4: size = 16
        case let type: throw Self.notSOCKS(type)
        }
        guard input.count >= 4 + size + 2 else { return .wait }
        input = input.dropFirst(4 + size + 2)
        return .done
    }

    private static func failure(_ reply: UInt8) -> TransportError {
        let (failure, text): (ProxyFailure, String) =
            switch reply {
            case 2: (.notAllowed, "its rules do not allow the connection")
            case 3: (.networkUnreachable, "the network is unreachable")
            case 4: (.hostUnreachable, "the host is unreachable, or its name is unknown")
            case 5: (.refused, "the connection was refused")
            case 6: (.timedOut, "the time to live expired")
            case 7: (.unsupported, "it does not know the command")
            case 8: (.unsupported, "it does not support this kind of address")
            default: (.other(UInt16(reply)), "general failure (reply \(reply))")
            }
        return .proxy(failure, "the SOCKS proxy cannot connect: \(text)")
    }

    private static func notSOCKS(_ byte: UInt8) -> TransportError {
        .proxy(.protocolViolation, "the proxy does not speak SOCKS 5: it has sent \(hexadecimal(UInt64(byte)))")
    }
}
