/// A handle to a request that was started with ``Client/start(_:timeout:options:)-(Request,_,_)``.
///
/// The handle of a `Request` is a `PendingRequest<Response>`. The handle of a ``TypedRequest`` has the request's
/// ``TypedRequest/Reply`` as its value.
///
/// Discarding the handle does not cancel the request.
public struct PendingRequest<Value: Sendable>: Sendable {
    private let handle: any RequestProgress
    private let read: @Sendable (Outcome) throws(ClientError) -> Value

    /// The current state of the request.
    public var state: RequestState { handle.state }

    /// The serial number of the request on its link; `nil` while the request is not on a link, 0 in protocols without
    /// serials.
    public var serial: SerialNumber? { handle.serial }

    /// The number of the link that the request is on; `nil` while the request is not on a link. With it,
    /// ``Client/serverInfo(as:of:)`` returns what the handshake of that link stored.
    public var session: SessionID? { handle.session }

    /// Cancels the request, as cancelling the task of a `send` does. Has no effect after the request has ended.
    public func cancel() { handle.cancel() }

    /// The response of the request. Waits for it if necessary.
    ///
    /// The value can be read any number of times. A typed request decodes its response each time. Cancelling a task
    /// that waits for the value cancels the request, for all holders of the handle.
    ///
    /// - Throws: A ``ClientError``, as ``Client/send(_:timeout:options:)-(Request,_,_)`` does.
    public var value: Value {
        get async throws(ClientError) { try read(await handle.outcome()) }
    }
}

extension PendingRequest<Response> {
    package init(_ handle: any RequestProgress) {
        self.init(handle: handle) { outcome throws(ClientError) in try outcome.get() }
    }

    func read<Typed: TypedRequest>(by request: Typed, for sender: any RequestSender) -> PendingRequest<Typed.Reply> {
        let owner = (sender as? any RoutingSender)?.owner
        return PendingRequest<Typed.Reply>(handle: handle) { [weak owner] outcome throws(ClientError) in
            do throws(ClientError) {
                return try request.read(try outcome.get(), for: owner)
            } catch {
                throw error.named(Typed.errorName)
            }
        }
    }
}
