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
}
