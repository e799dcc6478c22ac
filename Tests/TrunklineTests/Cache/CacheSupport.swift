import Synchronization
import Testing
import Trunkline
import TrunklineTesting

extension CachingSender {
    /// The result of a call with a cache policy.
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

    /// The response to a call with a cache policy as text, or the code and the fate of its error.
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

/// A server that replies with the body of the request and the number of requests so far: "rates 3".
final class Generations: Sendable {
    private let count = Atomic<Int>(0)

    func reply(to request: Frame) -> Reaction {
        let number = count.wrappingAdd(1, ordering: .relaxed).newValue
        return .reply(Bytes("\(String(request.body)) \(number)"))
    }
}
