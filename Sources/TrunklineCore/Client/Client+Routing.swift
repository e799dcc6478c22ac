extension Client: RoutingSender {
    package nonisolated var defaultTimeout: Duration? { options.requests.timeout }

    package nonisolated var callExecutor: (any TaskExecutor)? {
        isIntercepted ? loop.callbackExecutor : loop.taskExecutor
    }

    /// Calls `body` once, with this client.
    public nonisolated(nonsending) func perform<Value: Sendable>(
        timeout: Timeout = .default,
        options: CallOptions = CallOptions(),
        _ body: nonisolated(nonsending) (Client, Timeout, CallOptions) async throws(ClientError) -> Value
    ) async throws(ClientError) -> Value {
        try await body(self, timeout, options)
    }
}
