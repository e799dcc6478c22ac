public import Foundation
public import TrunklineCore

/// A method that the server calls: a request of the server, or a notification.
///
/// ```swift
/// for await message in client.pushes(forKey: "window/logMessage").messages {
///     guard let call = JSONRPCCall(message) else { continue }
///     print(try call.params(as: LogMessage.self).message)
/// }
/// ```
public struct JSONRPCCall: Sendable, Hashable {
    /// The name of the method.
    public let method: String
    /// The JSON text of the parameters, an object or an array; empty if there are none.
    public let params: Bytes

    /// Reads a request of the server, as a handler of
    /// ``/Trunkline/Client/serve(maximumConcurrent:maximumWaiting:_:)`` receives it. `nil` if the frame has no method.
    public init?(_ frame: Frame) {
        guard let method = frame[bytes: JSONRPCCodec.method] else { return nil }
        (self.method, params) = (String(method), frame.body)
    }

    /// Reads a notification. `nil` if the push has no method.
    public init?(_ push: PushMessage) {
        guard let method = push[bytes: JSONRPCCodec.method] else { return nil }
        (self.method, params) = (String(method), push.body)
    }

    /// Decodes the parameters. Missing parameters are decoded as null.
    ///
    /// - Parameters:
    ///   - type: The type of the parameters.
    ///   - decoder: The decoder. Default: Foundation's defaults.
    /// - Throws: ``JSONDecodingError``.
    public func params<Params: Decodable>(
        as type: Params.Type,
        decoder: JSONDecoder = JSONDecoder()
    ) throws -> Params {
        try decoder.value(type, in: params.isEmpty ? "null" : params)
    }
}

extension JSONRPCCall {
    /// Answers requests of the server of `client` until it is closed or the calling task is cancelled.
    ///
    /// ```swift
    /// try await JSONRPCCall.serve(client) { call in
    ///     switch call.method {
    ///     case "workspace/applyEdit": try await apply(call.params(as: Edit.self))
    ///     case "window/showMessageRequest": JSONRPCVoid()
    ///     default: nil
    ///     }
    /// }
    /// ```
    ///
    /// The server receives:
    ///
    /// | The handler | The server receives |
    /// |---|---|
    /// | returns a value | its JSON as the result; null for ``JSONRPCVoid`` |
    /// | returns `nil` | the error -32601, *Method not found* |
    /// | throws a ``JSONRPCError`` | that error |
    /// | throws a ``JSONDecodingError``, as `params(as:)` does | the error -32602, *Invalid params* |
    /// | throws another error | the error -32603, *Internal error* |
    /// | is not called, because too many requests wait | the error -32000, *Too many requests* |
    ///
    /// If the server cancels a request, the task of its handler is cancelled. Otherwise this method behaves like
    /// ``/Trunkline/Client/serve(maximumConcurrent:maximumWaiting:_:)``, which has frames instead of values.
    ///
    /// - Parameters:
    ///   - client: The client, which speaks ``JSONRPCCodec``.
    ///   - maximumConcurrent: The number of handlers that run at once. Default 64, at least 1.
    ///   - maximumWaiting: The number of requests that wait for a handler. Default 1,024.
    ///   - handler: Returns the result of a request.
    /// - Throws: As ``/Trunkline/Client/serve(maximumConcurrent:maximumWaiting:_:)`` does.
    public nonisolated(nonsending) static func serve(
        _ client: Client,
        maximumConcurrent: Int = 64,
        maximumWaiting: Int = 1024,
        _ handler: @escaping @Sendable (_ call: JSONRPCCall) async throws -> (any Encodable & Sendable)?
    ) async throws(ClientError) {
        try await client.serve(maximumConcurrent: maximumConcurrent, maximumWaiting: maximumWaiting) { request in
            guard let call = JSONRPCCall(request) else { return JSONRPCError.unknownMethod.response }
            do {
                guard let result = try await handler(call) else { return JSONRPCError.unknownMethod.response }
                return Frame(.response, body: Bytes(try JSONEncoder.sortingKeys.encode(result)))
            } catch let error as JSONRPCError {
                return error.response
            } catch is JSONDecodingError {
                return JSONRPCError(.invalidParams, "Invalid params").response
            }
        }
    }
}

extension JSONRPCError {
    static let unknownMethod = JSONRPCError(.methodNotFound, "Method not found")
}
