extension JSONRPCCodec {
    /// What a protocol adds to JSON-RPC 2.0: cancellation, heartbeats and names of errors.
    ///
    /// ```swift
    /// var dialect = JSONRPCCodec.Dialect.plain
    /// dialect.cancellation = .init(method: "abort", parameter: "id", isAnswered: true)
    /// let codec = JSONRPCCodec(.lines, dialect: dialect)
    /// ```
    public struct Dialect: Sendable, Hashable {
        /// A notification by which the sender of a request cancels it. Both sides use the same one.
        public struct Cancellation: Sendable, Hashable {
            /// The method of the notification.
            public var method: String
            /// The name of the parameter with the id of the request. The parameters are an object.
            public var parameter: String
            /// Whether the receiver of the notification still answers the request: with its response, or with an error.
            ///
            /// If not, the place of a cancelled request on the link is free at once, and the client sends no answer to
            /// a request that the server has cancelled.
            public var isAnswered: Bool

            /// Creates a description of a cancellation.
            ///
            /// - Parameters:
            ///   - method: The method of the notification.
            ///   - parameter: The name of the parameter with the id of the request.
            ///   - isAnswered: Whether the receiver still answers the request.
            public init(method: String, parameter: String, isAnswered: Bool) {
                (self.method, self.parameter, self.isAnswered) = (method, parameter, isAnswered)
            }
        }

        /// The notification that cancels a request. Default `nil`: none. The client then abandons requests only on its
        /// own side, and notifications of the server are all pushes.
        public var cancellation: Cancellation?
        /// The methods of requests for which no cancellation is sent. Default: none.
        public var uncancellable: Set<String> = []
        /// The method of a request without parameters that only shows that the receiver is alive. Both sides may send
        /// it. Default `nil`: none, so the links have no heartbeat.
        ///
        /// The client answers such a request itself, with an empty object. An error is an answer too.
        public var ping: String?
        /// The method of a notification without parameters that the client sends before it closes a link in order.
        /// Default `nil`: none.
        public var farewell: String?
        /// The names of errors by their codes, for ``/Trunkline/ServerReason/name``. They take precedence over those of
        /// JSON-RPC 2.0, section 5.1. Default: none.
        public var errorNames: [Int: String] = [:]

        /// Creates a dialect without additions: ``plain``.
        public init() {}

        /// JSON-RPC 2.0 without additions. There is no cancellation and no heartbeat.
        public static let plain = Dialect()

        /// The Language Server Protocol 3.17: `$/cancelRequest`, which is answered, and `exit` before the end of a
        /// link. There is no heartbeat.
        ///
        /// Send the request `shutdown` before you close the client: a server that receives `exit` without it ends with
        /// an error.
        public static let languageServer = make {
            $0.cancellation = Cancellation(method: "$/cancelRequest", parameter: "id", isAnswered: true)
            $0.farewell = "exit"
            $0.errorNames = [
                -32002: "ServerNotInitialized", -32001: "UnknownErrorCode", -32803: "RequestFailed",
                -32802: "ServerCancelled", -32801: "ContentModified", -32800: "RequestCancelled",
            ]
        }

        /// The Model Context Protocol, revisions 2024-11-05 to 2025-06-18: `notifications/cancelled`, which is not
        /// answered, and `ping`. The request `initialize` is not cancelled.
        public static let modelContext = make {
            $0.cancellation = Cancellation(method: "notifications/cancelled", parameter: "requestId", isAnswered: false)
            $0.uncancellable = ["initialize"]
            $0.ping = "ping"
            $0.errorNames = [-32002: "ResourceNotFound"]
        }

        private static func make(_ change: (inout Dialect) -> Void) -> Dialect {
            var dialect = Dialect()
            change(&dialect)
            return dialect
        }

        func errorName(of code: Int) -> String? { errorNames[code] ?? JSONRPCError.Code(rawValue: code).name }
    }
}
