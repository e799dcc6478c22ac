/// The child processes of links: their output, and their ends. Confined to the event loop of their connection.
final class ChildProcesses {
    private let context: ConnectionContext
    private var count = 0
    private var waiters: [@Sendable () -> Void] = []
    private var outputs: [(session: SessionID, line: String)] = []

    init(_ context: ConnectionContext) { self.context = context }

    func begin() { count += 1 }

    func heard(_ event: ProcessEvent, _ endpoint: Endpoint, _ session: SessionID) {
        switch event {
        case .wrote(let lines):
            if let last = lines.last { noteOutput(last.text, of: session) }
            for line in lines {
                let content = ClientEvent.Content.processOutput(
                    endpoint,
                    session: session,
                    line: line.text,
                    omitted: line.omitted
                )
                context.observation?.add(.links, content)
            }
        case .over:
            count -= 1
            guard count == 0 else { return }
            for waiter in exchange(&waiters, with: []) { waiter() }
        }
    }

    func whenAllHaveEnded(_ body: @escaping @Sendable () -> Void) {
        if count == 0 { body() } else { waiters.append(body) }
    }

    private func noteOutput(_ line: String, of session: SessionID) {
        outputs.removeAll { $0.session == session }
        // A link may drain while the process of the next one begins.
        if outputs.count == 4 { outputs.removeFirst() }
        outputs.append((session, line))
    }

    func lastOutput(of session: SessionID) -> String? { outputs.last { $0.session == session }?.line }
}
