/// The child processes of links.
extension Connection {
    /// Notes the child process of a new link, if it has one.
    func noteProcess(of transport: any Transport) {
        let hasProcess = transport.whenProcessIsOver { [weak self] in self?.onLoop { $0.processEnded() } }
        if hasProcess { memory.processes += 1 }
    }

    private func processEnded() {
        memory.processes -= 1
        guard memory.processes == 0 else { return }
        for waiter in exchange(&memory.processWaiters, with: []) { waiter() }
    }

    /// Calls `body` when no child process is left, perhaps at once. Links that are closed end theirs.
    func whenProcessesHaveEnded(_ body: @escaping @Sendable () -> Void) {
        if memory.processes == 0 { body() } else { memory.processWaiters.append(body) }
    }

    /// The child process of `link` has written lines to standard error.
    func heardOutput(_ lines: [OutputLines.Line], _ link: Link) {
        for line in lines {
            observation?.add(
                .links,
                .processOutput(link.endpoint, session: link.session, line: line.text, omitted: line.omitted)
            )
        }
    }
}
