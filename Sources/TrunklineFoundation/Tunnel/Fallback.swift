import Foundation
import Trunkline

/// Which requests may go directly when the link did not answer them. This is the one place that decides it.
enum Fallback: Sendable {
    /// None: it is given up, out of time, or answered.
    case none
    /// Those that may be carried out twice: the origin may have seen it.
    case ifIdempotent
    /// All: the origin has not seen it.
    case always

    init(after error: ClientError) {
        self =
            switch error.code {
            case .cancelled, .timedOut: .none
            default: error.fate == .notSent ? .always : .ifIdempotent
            }
    }

    init(after verdict: GatewayVerdict?) { self = verdict?.isUnperformed == true ? .always : .none }

    init(after result: Result<TunnelReply, LinkFailure>) {
        switch result {
        case .success(let reply): self.init(after: reply.response.verdict)
        case .failure(let failure): self = failure.fallback
        }
    }
}

/// Why a request was not answered over the link.
struct LinkFailure: Error {
    let error: URLError
    let fallback: Fallback

    /// What became of the request itself, and not of one of its frames.
    init(_ error: ClientError) { self.init(URLError(error), Fallback(after: error)) }

    init(_ error: URLError, _ fallback: Fallback = .none) { (self.error, self.fallback) = (error, fallback) }
}

extension URLError {
    /// What the caller's own source of a body threw.
    init(sourceFailure error: any Error) {
        switch error {
        case let error as URLError: self = error
        case is CancellationError: self = URLError(.cancelled)
        default:
            self = URLError(
                .requestBodyStreamExhausted,
                reason: "the source of the request's body failed",
                underlying: error
            )
        }
    }

    /// What was thrown while something was read from the link.
    init(linkFailure error: any Error) {
        switch error {
        case let error as ClientError: self = URLError(error)
        case is CancellationError: self = URLError(.cancelled)
        default: self = URLError(.unknown, reason: "\(error)", underlying: error)
        }
    }

    /// What a URLSession would have said.
    init(_ error: ClientError) {
        let code: Code =
            switch error.code {
            case .cancelled: .cancelled
            case .timedOut: .timedOut
            case .connectionLost: .networkConnectionLost
            case .unavailable: .cannotConnectToHost
            case .closed: error.fate == .notSent ? .cannotConnectToHost : .networkConnectionLost
            case .rejected, .protocolViolation, .invalidResponse: .badServerResponse
            case .invalidRequest, .invalidArgument: .dataLengthExceedsMaximum
            case .overloaded, .notCached: .cannotLoadFromNetwork
            case .tlsFailed: .secureConnectionFailed
            }
        self.init(code, reason: "\(error)", underlying: error)
    }

    /// The same with the URL that it is about, if it does not say so yet. No URL in it has a user or a password.
    func failing(at url: URL?) -> URLError {
        guard let url = (failingURL ?? url)?.withoutCredentials, url != failingURL else { return self }
        var info = userInfo
        info[NSURLErrorFailingURLErrorKey] = url
        info["NSErrorFailingURLStringKey"] = nil  // the same as a text, of old
        return URLError(code, userInfo: info)
    }
}

extension URL {
    /// The URL without user and password.
    var withoutCredentials: URL {
        guard user(percentEncoded: true) != nil || password(percentEncoded: true) != nil,
            var components = URLComponents(url: self, resolvingAgainstBaseURL: true)
        else { return self }
        (components.percentEncodedUser, components.percentEncodedPassword) = (nil, nil)
        return components.url ?? self
    }
}
