import Synchronization
public import TrunklineCore

/// One-way messages. That they were written tells nothing about their server.
extension Cluster {
    /// Sends a one-way message to one of the servers and returns when the kernel has accepted its last byte. See
    /// ``Client/post(_:timeout:options:)``.
    ///
    /// - Parameters:
    ///   - request: The message.
    ///   - timeout: The time from this call until the message is written. Default: the timeout of `options`, or else
    ///     ``ClientOptions/Requests/timeout`` (8 s).
    ///   - options: Whether the message is sent again when it fails, and whether it waits for a server.
    /// - Throws: A ``ClientError``.
    public nonisolated func post(
        _ request: Request,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) {
        var call = try call(timeout, options, at: loop.now)
        call.provesNothing()
        try await perform(&call) { _ in
            .accepted
        } _: { client, timeout, options throws(ClientError) in
            try await client.post(request, timeout: timeout, options: options)
        }
    }

    /// Accepts a one-way message for sending to one of the servers and returns, usually immediately. See
    /// ``Client/enqueue(_:timeout:)``.
    ///
    /// - Parameters:
    ///   - request: The message.
    ///   - timeout: The time from this call until the message is written. Default:
    ///     ``ClientOptions/Requests/timeout`` (8 s).
    /// - Throws: A ``ClientError``, always with the fate `notSent`.
    public nonisolated func enqueue(_ request: Request, timeout: Timeout = .default) async throws(ClientError) {
        var call = try call(timeout, CallOptions(), at: loop.now)
        call.provesNothing()
        try await perform(&call) { _ in
            .accepted
        } _: { client, timeout, _ throws(ClientError) in
            try await client.enqueue(request, timeout: timeout)
        }
    }

    /// Accepts a one-way message for sending to one of the servers, or fails immediately. See
    /// ``Client/tryEnqueue(_:timeout:)``.
    ///
    /// - Parameters:
    ///   - request: The message.
    ///   - timeout: The time from this call until the message is written.
    /// - Throws: A ``ClientError``, always with the fate `notSent`: `unavailable` if no server is ready, and those of a
    ///   client.
    public nonisolated func tryEnqueue(_ request: Request, timeout: Timeout = .default) throws(ClientError) {
        let now = loop.now
        _ = try call(timeout, CallOptions(), at: now)
        guard let link = picker.pick(Wish(now: now, probing: .never)) else {
            begin()
            let error = ClientError(.unavailable, .notSent, "no server is ready")
            callFailed(error, wasPlaced: false)
            throw error
        }
        do throws(ClientError) {
            try link.client.tryEnqueue(request, timeout: timeout)
        } catch {
            end(end(of: error), on: link, from: now, isMeasured: false)
            callFailed(error, wasPlaced: true)
            throw error
        }
        end(.accepted, on: link, from: now, isMeasured: false)
    }
}
