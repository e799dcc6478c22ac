import TrunklineCore

extension ClientError {
    var isUnreachability: Bool {
        switch code {
        case .unavailable, .timedOut, .connectionLost, .tlsFailed: true
        case .cancelled, .closed, .rejected, .interrupted, .sessionLost, .protocolViolation, .invalidRequest,
            .invalidResponse, .invalidArgument, .overloaded, .notCached:
            false
        }
    }

    static var notCached: ClientError {
        ClientError(.notCached, .notSent, "no response is cached, and the cache policy does not allow a request")
    }
}

extension CallOptions {
    /// Calls whose other options are equal may share a request.
    var withoutCaller: CallOptions {
        var options = self
        (options.timeout, options.recorder, options.movableDeadline) = (.default, nil, nil)
        return options
    }
}
