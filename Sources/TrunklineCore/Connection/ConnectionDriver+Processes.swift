/// The child processes of links.
extension ConnectionDriver {
    /// Follows the process to its end, whatever becomes of the attempt and its link.
    func followProcess(of dialer: any Dialer, _ attempt: ReconnectMachine.Attempt) {
        for transport in dialer.opening {
            let hasProcess = transport.followProcess { [weak self] event in
                self?.entered { $0.heard(event, attempt.endpoint, attempt.id) }
            }
            if hasProcess { memory.processes += 1 }
        }
    }

    private func heard(_ event: ProcessEvent, _ endpoint: Endpoint, _ session: SessionID) {
        switch event {
        case .wrote(let lines):
            if let last = lines.last { memory.noteOutput(last.text, of: session) }
            for line in lines {
                let content = ClientEvent.Content.processOutput(
                    endpoint,
                    session: session,
                    line: line.text,
                    omitted: line.omitted
                )
                observation?.add(.links, content)
            }
        case .over: processEnded()
        }
    }

    private func processEnded() {
        memory.processes -= 1
        guard memory.processes == 0 else { return }
        for waiter in exchange(&memory.processWaiters, with: []) { waiter() }
    }

    func whenProcessesHaveEnded(_ body: @escaping @Sendable () -> Void) {
        if memory.processes == 0 { body() } else { memory.processWaiters.append(body) }
    }
}
