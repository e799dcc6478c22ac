/// The TLS settings of a client, as read from its options. Created once, and again when a file has changed.
struct LoadedTLS {
    let context: any TLSContext
    let versions: [FileVersion?]
    /// Verified instead of the host of the endpoint.
    fileprivate let serverName: String?

    func makeEngine(for endpoint: Endpoint) throws(TransportError) -> any TLSEngine {
        if let serverName { return try context.makeEngine(for: serverName) }
        guard case .host(let host, _) = endpoint.target else {
            let message = "\(endpoint) has no host name to verify; set options.tls.serverName"
            throw TransportError(.tls(.configuration), message)
        }
        return try context.makeEngine(for: host)
    }
}

extension ClientOptions.TLS {
    var files: [PEM] {
        var texts: [PEM] = []
        switch roots {
        case .system: break
        case .only(let text), .systemAnd(let text): texts.append(text)
        }
        if let identity { texts += [identity.certificates, identity.privateKey] }
        return texts.filter(\.isFile)
    }

    func load(unlessChangedSince known: LoadedTLS?) async -> Result<LoadedTLS, TransportError> {
        let versions = files.map(\.version)
        if let known, known.versions == versions { return .success(known) }
        do throws(TransportError) {
            let context = try OpenSSLContext(try await settings())
            return .success(LoadedTLS(context: context, versions: versions, serverName: serverName))
        } catch {
            return .failure(error)
        }
    }

    package func settings() async throws(TransportError) -> TLSSettings {
        var settings = TLSSettings(.client(verifies: verification == .full))
        settings.minimumVersion = minimumVersion
        settings.applicationProtocols = applicationProtocols
        settings.pins = pins
        switch roots {
        case .system: break
        case .only(let text):
            settings.trustsSystem = false
            settings.roots = [try text.load()]
        case .systemAnd(let text): settings.roots = [try text.load()]
        }
        if let identity { settings.identity = try await identity.load() }
        return settings
    }
}
