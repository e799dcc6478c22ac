import Synchronization
import Testing
import Trunkline
import TrunklineTesting

extension Client {
    /// What a call with a policy came to.
    func result(
        _ body: Bytes,
        _ policy: CachePolicy,
        timeout: Timeout = .default,
        retry: RetryPolicy = .default,
        waitsForReady: Bool = true
    ) async -> Result<Response, ClientError> {
        do throws(ClientError) {
            let request = ask(body)
            return .success(
                try await send(
                    request,
                    cache: policy,
                    timeout: timeout,
                    options: CallOptions(retry: retry, waitsForReady: waitsForReady)
                )
            )
        } catch {
            return .failure(error)
        }
    }

    /// What a call with a policy returned, as text; or why it failed.
    func text(
        _ body: Bytes,
        _ policy: CachePolicy,
        timeout: Timeout = .default,
        waitsForReady: Bool = true
    ) async -> String {
        await result(body, policy, timeout: timeout, waitsForReady: waitsForReady).text
    }
}

extension Result where Success == Response, Failure == ClientError {
    var text: String {
        switch self {
        case .success(let response): String(response.body)
        case .failure(let error): "\(error.code) \(error.fate)"
        }
    }

    var error: ClientError? { if case .failure(let error) = self { error } else { nil } }
}

/// A server that replies with what it was asked and how many requests it has had: "rates 3".
final class Generations: Sendable {
    private let count = Atomic<Int>(0)

    func reply(to request: Frame) -> Reaction {
        let number = count.wrappingAdd(1, ordering: .relaxed).newValue
        return .reply(Bytes("\(String(request.body)) \(number)"))
    }
}
