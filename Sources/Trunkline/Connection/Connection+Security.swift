/// What the links of one connection are secured with. Made once, and anew when a file has changed.
struct Security {
    let context: any TLSContext
    /// Of the files that it was made of.
    let versions: [FileVersion?]
}

/// TLS between the socket and the handshake.
extension Connection {
    /// What TLS agreed on for the link that is ready; `nil` when there is none, or it is in plaintext.
    public var tlsSession: TLSSession? { ready.flatMap { (links[$0].transport as? SecuredTransport)?.session } }

    /// Reads what TLS needs, unless that has been done, and goes on with `attempt`.
    func prepareSecurity(for attempt: ReconnectMachine.Attempt) {
        if security != nil, options.tls.files.isEmpty { return beginRace(attempt) }
        let known = security
        // Not structured: it begins on the loop, where nobody can await it. It reads files and asks for a passphrase, for
        // which the loop has no time, and comes too late, without effect, when the attempt is over.
        let task = Task(executorPreference: loop.callbackExecutor) { [weak self, options] in
            let result = await options.tls.security(unlessChangedSince: known)
            await self?.prepared(result, for: attempt)
        }
        self.attempt?.preparing = task
    }

    private func prepared(_ result: Result<Security, TransportError>, for attempt: ReconnectMachine.Attempt) {
        entered { $0.goOn(with: attempt, result) }
    }

    private func goOn(with attempt: ReconnectMachine.Attempt, _ result: Result<Security, TransportError>) {
        guard self.attempt?.attempt == attempt, self.attempt?.preparing != nil else { return }
        self.attempt?.preparing = nil
        switch result {
        case .success(let security):
            self.security = security
            beginRace(attempt)
        case .failure(let error):
            enter(.securing)
            // What was good before is being replaced, perhaps, and only one of two files is there yet.
            attemptFailed(attempt.id, error, isPermanent: security == nil ? nil : false)
        }
    }

    // MARK: Rotation

    /// Looks at the files of a link that is secured, again and again while there is one.
    func watchFiles() {
        guard let interval = options.tls.rotationCheck, let ready, links[ready].transport is SecuredTransport,
            !options.tls.files.isEmpty
        else { return }
        let timer = rotationTimer ?? ConnectionTimer(self) { $0.lookAtFiles() }
        rotationTimer = timer
        loop.arm(timer.timer, at: loop.now.advanced(by: max(.milliseconds(1), interval)))
    }

    func stopWatchingFiles() {
        if let rotationTimer { loop.arm(rotationTimer.timer, at: nil) }
    }

    private func lookAtFiles() {
        guard let known = ready.flatMap({ links[$0].fileVersions }) else { return }
        // Not structured: a timer cannot await it. The loop has no time for files. It ends by itself, and what it reports too
        // late has no effect.
        Task(executorPreference: loop.callbackExecutor) { [weak self, options] in
            let versions = options.tls.files.map(\.version)
            await self?.sawFiles(hasChanged: versions != known)
        }
    }

    private func sawFiles(hasChanged: Bool) {
        guard lifecycle < .closing else { return }
        if hasChanged { entered { $0.perform($0.machine.renew(at: $0.loop.now)) } }
        watchFiles()
    }

    /// Begins to connect to `address`, one of those of `endpoint`.
    func connect(to address: SocketAddress, for endpoint: Endpoint) throws(TransportError) -> any Transport {
        guard endpoint.isSecured else { return loop.connect(to: address, options: socketOptions, handler: self) }
        let engine = try makeEngine(for: endpoint)
        return SecuredTransport(engine, on: loop, handler: self) { [loop, socketOptions] handler in
            loop.connect(to: address, options: socketOptions, handler: handler)
        }
    }

    func makeEngine(for endpoint: Endpoint) throws(TransportError) -> any TLSEngine {
        guard let security else { throw TransportError(.tls(.configuration), "TLS was not prepared") }
        if let name = options.tls.serverName { return try security.context.makeEngine(for: name) }
        guard case .host(let host, _) = endpoint.target else {
            let message = "the certificate of \(endpoint) has to be for a name: options.tls.serverName"
            throw TransportError(.tls(.configuration), message)
        }
        return try security.context.makeEngine(for: host)
    }
}

extension ClientOptions.TLS {
    /// What may change between one link and the next.
    var files: [PEM] {
        var texts: [PEM] = []
        switch roots {
        case .system: break
        case .only(let text), .systemAnd(let text): texts.append(text)
        }
        if let identity { texts += [identity.certificates, identity.privateKey] }
        return texts.filter(\.isFile)
    }

    /// Reads everything and makes a context of it; `known` if nothing has changed since.
    func security(unlessChangedSince known: Security?) async -> Result<Security, TransportError> {
        let versions = files.map(\.version)
        if let known, known.versions == versions { return .success(known) }
        do throws(TransportError) {
            return .success(Security(context: try OpenSSLContext(try await settings()), versions: versions))
        } catch {
            return .failure(error)
        }
    }

    private func settings() async throws(TransportError) -> TLSSettings {
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
