/// CONNECT of HTTP/1.1 (RFC 9110, section 9.3.6) with basic credentials (RFC 7617). The proxy looks up names.
package struct HTTPConnectExchange: OpeningExchange {
    private let target: String
    private let credentials: ProxyCredentials?
    private var interimResponses = 0
    /// How far the header was searched for its end, and whether the line there is empty so far.
    private var searched = (count: 0, isLineEmpty: false)

    private static let maximumHeader = 16 * 1024
    private static let maximumInterim = 8

    package init(to host: String, port: UInt16, as credentials: ProxyCredentials?) throws(TransportError) {
        guard host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw TransportError(.invalidAddress, "the host cannot be part of a request to an HTTP proxy")
        }
        guard credentials?.username.contains(":") != true else {
            throw .proxy(.credentialsRefused, "a user name with a colon cannot be sent (RFC 7617, section 2)")
        }
        target = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        self.credentials = credentials
    }

    package var isWithProxy: Bool { true }

    package mutating func begin(from local: SocketAddress?, to remote: SocketAddress?) -> [UInt8] {
        var text = "CONNECT \(target) HTTP/1.1\r\nHost: \(target)\r\n"
        if let credentials {
            let pair = Self.base64(Array("\(credentials.username):\(credentials.password)".utf8))
            text += "Proxy-Authorization: Basic \(pair)\r\n"
        }
        return Array("\(text)\r\n".utf8)
    }

    package mutating func receive(_ input: inout ArraySlice<UInt8>) throws(TransportError) -> OpeningStep {
        guard input.starts(with: "HTTP/1.".utf8.prefix(input.count)) else {
            throw .proxy(.protocolViolation, "the proxy does not speak HTTP")
        }
        guard let end = endOfHeader(in: input) else {
            guard input.count < Self.maximumHeader else {
                throw .proxy(.protocolViolation, "the answer of the HTTP proxy has a header of more than 16 KiB")
            }
            return .wait
        }
        let (status, phrase) = try readLine(input)
        // An interim response precedes the final one (RFC 9110, section 15.2).
        if 100..<200 ~= status {
            interimResponses += 1
            guard interimResponses <= Self.maximumInterim else {
                throw .proxy(.protocolViolation, "the HTTP proxy answers only with interim responses")
            }
            input = input[end...]
            return input.isEmpty ? .wait : try receive(&input)
        }
        guard 200..<300 ~= status else { throw failure(status, phrase) }
        input = input[end...]
        return .done
    }

    private func readLine(_ input: ArraySlice<UInt8>) throws(TransportError) -> (status: UInt16, phrase: String) {
        let line = input.prefix { $0 != 0x0D && $0 != 0x0A }
        let version = line.prefix { $0 != 0x20 }
        let rest = line[version.endIndex...].drop { $0 == 0x20 }
        let word = rest.prefix { $0 != 0x20 }
        guard word.count == 3, let status = UInt16(strict: String(decoding: word, as: UTF8.self)), status >= 100 else {
            throw .proxy(.protocolViolation, "the answer of the HTTP proxy has no status")
        }
        return (status, String(decoding: rest[word.endIndex...].drop { $0 == 0x20 }, as: UTF8.self))
    }

    /// RFC 4648, section 4.
    private static func base64(_ bytes: [UInt8]) -> String {
        let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        var text: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            let value = group.reduce(0) { $0 << 8 | Int($1) } << (8 * (3 - group.count))
            for place in 0..<4 {
                text.append(place <= group.count ? digits[value >> (18 - 6 * place) & 0x3F] : UInt8(ascii: "="))
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    private func failure(_ status: UInt16, _ phrase: String) -> TransportError {
        let failure: ProxyFailure =
            switch status {
            // tinyproxy refuses wrong credentials with 401.
            case 401, 407: credentials == nil ? .authenticationRequired : .credentialsRefused
            case 403: .notAllowed
            case 405, 501: .unsupported
            case 502, 503: .hostUnreachable
            case 504: .timedOut
            default: .other(status)
            }
        return .proxy(failure, "the HTTP proxy answered \(status) \(phrase)")
    }

    private mutating func endOfHeader(in input: ArraySlice<UInt8>) -> Int? {
        var (index, isLineEmpty) = (input.startIndex + searched.count, searched.isLineEmpty)
        while index < input.endIndex {
            let byte = input[index]
            index += 1
            if byte == 0x0A {
                if isLineEmpty {
                    searched = (0, false)
                    return index
                }
                isLineEmpty = true
            } else if byte != 0x0D {
                isLineEmpty = false
            }
        }
        searched = (input.count, isLineEmpty)
        return nil
    }
}
