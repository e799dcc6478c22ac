import TrunklineCore

/// Asks for the SRV records of one name. The system's function blocks, so it is called on at most one thread. A
/// question that is asked while the thread waits for an earlier answer receives that answer.
final class SRVSearch: Sendable {
    typealias Function = @Sendable (String) -> Result<[UInt8], TransportError>

    private struct State: Sendable {
        var isRunning = false
        var asker: Alarm?
        var answer: Result<[UInt8], TransportError>?
    }

    private let name: String
    private let function: Function
    private let state = Lock(State())

    init(_ name: String, _ function: @escaping Function) { (self.name, self.function) = (name, function) }

    /// If the task is cancelled, returns at once. One task at a time may call this.
    nonisolated(nonsending) func records(
        within timeout: Duration,
        on loop: any EventLoop
    ) async throws(TransportError) -> [(record: SRVRecord, weight: Double)] {
        let asker = Alarm(on: loop)
        let isRunning = state.withLock { state in
            (state.asker, state.answer) = (asker, nil)
            return exchange(&state.isRunning, with: true)
        }
        if !isRunning { start() }
        await asker.wait(until: loop.now.advanced(by: timeout))
        let answer = state.withLock { state in
            state.asker = nil
            return exchange(&state.answer, with: nil)
        }
        let doing = "asking for the SRV records of \(name.escaped())"
        guard let answer else { throw TransportError(.timedOut, "\(doing): no answer within \(timeout)") }
        let message = try answer.get()
        do throws(SRVError) {
            return try SRVRecords(reading: message).preferred()
        } catch {
            throw TransportError(.nameResolutionFailed, "\(doing): \(error)")
        }
    }

    private func start() {
        let code = startThread(named: "trunkline-srv") { [self] in finish(function(name)) }
        guard code != 0 else { return }
        finish(.failure(transportError(code, "starting a thread to ask for SRV records")))
    }

    private func finish(_ answer: Result<[UInt8], TransportError>) {
        let asker = state.withLock { state in
            state.isRunning = false
            if state.asker != nil { state.answer = answer }
            return state.asker
        }
        asker?.ring()
    }
}
