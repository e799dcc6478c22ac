/// The TLS settings for the links of one connection. Created once, and again when a file has changed.
struct Security {
    let context: any TLSContext
    /// The versions of the files it was made from.
    let versions: [FileVersion?]
}

/// TLS between the socket and the handshake.
extension Connection {
    /// The result of the TLS handshake of the ready link; `nil` if there is no ready link, or if it is in plaintext.
    var tlsSession: TLSSession? { ready.flatMap { ($0.state.transport as? SecuredTransport)?.session } }

    /// Reads what TLS needs, unless that has been done, and continues `attempt`.
    func prepareSecurity(for attempt: ReconnectMachine.Attempt) {
        if security != nil, options.tls.files.isEmpty { return beginRace(attempt) }
        let known = security
        // Unstructured: it begins on the loop, which cannot await it. Reading files and asking for a passphrase would
        // block the loop. A result that comes after the end of the attempt has no effect.
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
            // If the files were valid before, they may be in the middle of a replacement, with one of two files
            // written. So this is not permanent.
            attemptFailed(attempt.id, error, isPermanent: security == nil ? nil : false)
        }
    }

    // MARK: File rotation

    /// Checks the TLS files of the ready link at regular intervals.
    func watchFiles() {
        guard let interval = options.tls.rotationCheck, let ready, ready.state.transport is SecuredTransport,
            !options.tls.files.isEmpty
        else { return }
        let timer = rotationTimer ?? ConnectionTimer(self, "rotation") { $0.lookAtFiles() }
        rotationTimer = timer
        loop.arm(timer.timer, at: loop.now.advanced(by: max(.milliseconds(1), interval)))
    }

    func stopWatchingFiles() {
        if let rotationTimer { loop.arm(rotationTimer.timer, at: nil) }
    }

    private func lookAtFiles() {
        guard let known = ready?.fileVersions else { return }
        // Unstructured: a timer cannot await it, and reading file attributes would block the loop. A result that comes
        // too late has no effect.
        Task(executorPreference: loop.callbackExecutor) { [weak self, options] in
            let versions = options.tls.files.map(\.version)
            await self?.saw(versions, insteadOf: known)
        }
    }

    private func saw(_ versions: [FileVersion?], insteadOf known: [FileVersion?]) {
        guard lifecycle < .closing else { return }
        if versions != known {
            observation?.log?.saw(versions)
            entered { $0.perform($0.machine.renew(at: $0.loop.now)) }
        }
        watchFiles()
    }

    /// Begins to connect to `address`, one of the addresses of `endpoint`.
    func connect(to address: SocketAddress, for endpoint: Endpoint) throws(TransportError) -> any Transport {
        guard endpoint.isSecured else { return loop.connect(to: address, options: socketOptions, handler: self) }
        let engine = try makeEngine(for: endpoint)
        return SecuredTransport(engine, on: loop, handler: self) { [loop, socketOptions] handler in
            loop.connect(to: address, options: socketOptions, handler: handler)
        }
    }

    func makeEngine(for endpoint: Endpoint) throws(TransportError) -> any TLSEngine {
        guard let security else { throw TransportError(.tls(.configuration), "the TLS settings are not loaded") }
        if let name = options.tls.serverName { return try security.context.makeEngine(for: name) }
        guard case .host(let host, _) = endpoint.target else {
            let message = "\(endpoint) has no host name to verify; set options.tls.serverName"
            throw TransportError(.tls(.configuration), message)
        }
        return try security.context.makeEngine(for: host)
    }
}

extension ClientOptions.TLS {
    /// The files that may change between one link and the next.
    var files: [PEM] {
        var texts: [PEM] = []
        switch roots {
        case .system: break
        case .only(let text), .systemAnd(let text): texts.append(text)
        }
        if let identity { texts += [identity.certificates, identity.privateKey] }
        return texts.filter(\.isFile)
    }

    /// Reads everything and creates the settings; returns `known` if no file has changed since.
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
