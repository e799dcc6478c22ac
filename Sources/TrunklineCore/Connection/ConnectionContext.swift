/// What does not change while a connection lives, and what all parts of its driver need.
final class ConnectionContext: Sendable {
    let loop: any EventLoop
    let options: ClientOptions
    let rules: LinkRules
    let observation: Observation?
    let recorder: (any ClientRecorder)?

    init(
        of endpoints: [Endpoint],
        speaking codec: ProtocolCodec,
        _ options: ClientOptions,
        on loop: any EventLoop,
        deliversAll: Bool
    ) {
        (self.loop, self.options) = (loop, options)
        let quarantine = options.requests.quarantine
        recorder = options.recorderSettings?
            .makeRecorder(of: endpoints, quarantine: quarantine, codec: codec, on: loop)
        observation = Observation(options, of: endpoints, recorder, on: loop)
        rules = LinkRules(codec, options, observation, deliversAll: deliversAll)
    }

    var codec: ProtocolCodec { rules.codec }

    /// Whether a late server is not to blame, because this process did not run.
    var isServerExcused: Bool { loop.delays.excuses(at: loop.turnTime) }
}

/// Dialing.
extension ConnectionContext {
    func obstacleToDatagrams(_ endpoint: Endpoint) -> TransportError? {
        guard endpoint.usesDatagrams else { return nil }
        let reason: String
        if rules.isInOrder {
            reason = "the responses of this protocol are matched in order, which datagrams do not keep"
        } else if endpoint.isSecured {
            reason = "TLS over UDP (DTLS) is not supported"
        } else if options.connecting.proxyHeader != nil {
            reason = "the header of the PROXY protocol (options.connecting.proxyHeader) cannot be sent in datagrams"
        } else if options.connecting.goesThroughProxy(to: endpoint) {
            reason = "datagrams cannot go through the proxy (options.connecting.proxy); see Proxy.exceptions"
        } else {
            return nil
        }
        return TransportError(.invalidAddress, "connecting to \(endpoint): \(reason)")
    }

    /// The kernel's probes come after the longest learned interval: they would keep idle links alive, or find losses.
    var optionsForDialing: ClientOptions {
        guard let range = options.liveness.adaptiveInterval, options.liveness.heartbeat == .pingPong, codec.hasPing
        else {
            return options
        }
        return options.probing(after: range.upperBound)
    }
}

extension ClientOptions {
    /// The first probe comes after `longest`, and after the answer to a ping that is sent then.
    fileprivate func probing(after longest: Duration) -> ClientOptions {
        guard var keepAlive = connecting.keepAlive else { return self }
        let answered = longest.addingClamped(liveness.deadline).addingClamped(.seconds(1))
        keepAlive.idle = max(keepAlive.idle, answered)
        var options = self
        options.connecting.keepAlive = keepAlive
        return options
    }
}
