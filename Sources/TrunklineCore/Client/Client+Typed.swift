extension Client {
    /// Sends a typed request and returns the decoded response.
    ///
    /// The request encodes its body and decodes its response. Deadline, cancellation and errors are those of
    /// ``Client/send(_:timeout:options:)-(Request,_,_)``. A request type can declare that its requests may be sent
    /// again: ``TypedRequest/retry``.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - timeout: The time from this call to the response, retries included. Default: the timeout of `options`, or
    ///     else ``ClientOptions/Requests/timeout`` (8 s).
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a link.
    /// - Returns: The decoded response.
    /// - Throws: A ``ClientError``, as for an untyped request, and also:
    ///   - `invalidRequest`, fate `notSent`: ``TypedRequest/encode()`` or ``TypedRequest/prepare(_:)`` threw the error
    ///     that is the cause.
    ///   - `invalidResponse`, fate `answered`: ``TypedRequest/decode(_:for:)`` threw the error that is the cause.
    ///   - `protocolViolation`, fate `answered`: ``TypedRequest/decode(_:for:)`` threw a ``FrameError``, which is the
    ///     cause.
    public nonisolated func send<Typed: TypedRequest>(
        _ request: Typed,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Typed.Reply {
        do throws(ClientError) {
            let frame = try Request(request).frame
            let options = try resolved(options.retrying(Typed.retry), timeout)
            return try request.read(try await outcome(of: frame, options, as: .send).get(), for: self)
        } catch {
            throw error.named(Typed.errorName)
        }
    }

    package nonisolated func noteUndecodable(_ error: ClientError) {
        commandQueue.post(.noteUndecodable(error))
    }
}

extension Handshaker {
    /// Sends a typed request during the handshake and returns the decoded response.
    ///
    /// Otherwise the method behaves like ``Handshaker/send(_:timeout:)-(Request,_)``. If the encoding or decoding of
    /// `Typed` fails, the error is the same as for ``Client/send(_:timeout:options:)-(Typed,_,_)``.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - timeout: The time from this call to the response. Default: the time that is left for the handshake, which a
    ///     longer timeout does not extend.
    /// - Returns: The decoded response.
    /// - Throws: A ``ClientError``.
    public func send<Typed: TypedRequest>(
        _ request: Typed,
        timeout: Timeout = .default
    ) async throws(ClientError) -> Typed.Reply {
        do throws(ClientError) {
            let untyped = try Request(request)
            return try request.read(try await send(untyped, timeout: timeout))
        } catch {
            throw error.named(Typed.errorName)
        }
    }
}
