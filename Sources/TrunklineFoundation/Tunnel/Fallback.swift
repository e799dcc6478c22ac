import Foundation
import TrunklineCore

/// Which requests may be sent directly after they failed over the link.
enum Fallback: Sendable {
    /// The request was cancelled, timed out or was answered.
    case none
    /// The origin may have received the request.
    case ifIdempotent
    /// The origin has not received the request.
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

struct LinkFailure: Error {
    let error: URLError
    let fallback: Fallback

    /// `error` is that of the request itself, not of one of its later frames.
    init(_ error: ClientError) { self.init(URLError(error), Fallback(after: error)) }

    init(_ error: URLError, _ fallback: Fallback = .none) { (self.error, self.fallback) = (error, fallback) }
}

extension URLError {
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

    init(linkFailure error: any Error) {
        switch error {
        case let error as ClientError: self = URLError(error)
        case is CancellationError: self = URLError(.cancelled)
        default: self = URLError(.unknown, reason: "\(error)", underlying: error)
        }
    }

    init(_ error: ClientError) {
        let code: Code =
            switch error.code {
            case .cancelled: .cancelled
            case .timedOut: .timedOut
            case .connectionLost, .interrupted, .sessionLost: .networkConnectionLost
            case .unavailable: .cannotConnectToHost
            case .closed: error.fate == .notSent ? .cannotConnectToHost : .networkConnectionLost
            case .rejected, .protocolViolation, .invalidResponse: .badServerResponse
            case .invalidRequest, .invalidArgument: .dataLengthExceedsMaximum
            case .overloaded, .notCached: .cannotLoadFromNetwork
            case .tlsFailed: .secureConnectionFailed
            }
        self.init(code, reason: "\(error)", underlying: error)
    }

    /// For a call that has sent something before, with the fate `earlier`: a step of a redirect, or a part of the body.
    func after(_ earlier: ClientError.Fate) -> URLError {
        guard let error = userInfo[NSUnderlyingErrorKey] as? ClientError else { return self }
        let whole = error.after(earlier)
        return whole.fate == error.fate ? self : URLError(whole)
    }

    /// `url` is used if the error has none. User and password are removed.
    func failing(at url: URL?) -> URLError {
        guard let url = (failingURL ?? url)?.withoutCredentials, url != failingURL else { return self }
        var info = userInfo
        info[NSURLErrorFailingURLErrorKey] = url
        info["NSErrorFailingURLStringKey"] = nil  // the obsolete form, as a string
        return URLError(code, userInfo: info)
    }
}

extension URL {
    var withoutCredentials: URL {
        guard user(percentEncoded: true) != nil || password(percentEncoded: true) != nil,
            var components = URLComponents(url: self, resolvingAgainstBaseURL: true)
        else { return self }
        (components.percentEncodedUser, components.percentEncodedPassword) = (nil, nil)
        return components.url ?? self
    }
}
