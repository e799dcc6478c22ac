import TrunklineCore

/// The servers in the text of a file: see ``Discovery/file(_:every:)``.
struct EndpointList: Equatable, Sendable {
    let servers: [ClusterEndpoint]

    init(of servers: [ClusterEndpoint]) { self.servers = servers }

    /// One server a line, `endpoint [weight=2] [zone=eu-1] [name=tls.example] [key=value …]`, separated by spaces or
    /// tabs. A field that begins with `#` begins a comment. A carriage return is ignored.
    init(parsing text: [UInt8]) throws(EndpointListError) {
        var servers: [ClusterEndpoint] = []
        let lines = text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (index, line) in lines.enumerated() {
            if let server = try Self.server(in: line, number: index + 1) { servers.append(server) }
        }
        self.servers = servers
    }

    private static func server(
        in line: ArraySlice<UInt8>,
        number: Int
    ) throws(EndpointListError) -> ClusterEndpoint? {
        func refuse(_ reason: String) -> EndpointListError { EndpointListError(line: number, reason: reason) }
        guard let line = String(validating: line, as: UTF8.self) else { throw refuse("the line is not valid UTF-8") }
        // In unicode scalars: a carriage return and a line feed are one character.
        let fields = line.unicodeScalars.split { $0 == " " || $0 == "\t" || $0 == "\r" }
            .map { String($0) }.prefix { !$0.hasPrefix("#") }
        guard let first = fields.first else { return nil }
        var server: ClusterEndpoint
        do {
            server = ClusterEndpoint(try Endpoint(parsing: first))
        } catch {
            throw refuse("\(error)")
        }
        var seen: Set<String> = []
        for field in fields.dropFirst() {
            let parts = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard parts.count == 2, !parts[0].isEmpty else { throw refuse("\"\(field.escaped())\" is not key=value") }
            let (key, value) = (parts[0], parts[1])
            guard seen.insert(key).inserted else { throw refuse("\"\(key.escaped())\" occurs twice") }
            switch key {
            case "weight":
                guard let weight = Double(strict: value) else {
                    throw refuse("the weight \"\(value.escaped())\" is not a number from 0 on")
                }
                server.weight = weight
                guard server.hasUsableWeight else {
                    throw refuse("the weight \"\(value.escaped())\" is not 0 or from 0.000001 to 1000000")
                }
            case "zone":
                guard !value.isEmpty else { throw refuse("the zone is empty") }
                server.zone = value
            case "name":
                guard !value.isEmpty else { throw refuse("the name is empty") }
                server.serverName = value
            default: server.metadata[key] = value
            }
        }
        return server
    }
}

struct EndpointListError: Error, Hashable, Sendable, LoggableError {
    let line: Int
    let reason: String

    var description: String { "line \(line): \(reason)" }
}
