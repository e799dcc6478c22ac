public import Foundation
import TrunklineCore

extension HTTPTunnel {
    /// The body of a response, read in pieces while it arrives. It can be read once; several iterators share its
    /// pieces.
    ///
    /// The boundaries between pieces have no meaning. When the body and all of its iterators are deallocated, the
    /// request is cancelled, as with a ``/Trunkline/ReplyStream``. Variables of top-level code are not deallocated: put
    /// the loop in a function, or call ``cancel()``.
    public struct Body: AsyncSequence, Sendable {
        /// A piece; never empty.
        public typealias Element = Data
        /// The error type of `URLSession`.
        public typealias Failure = URLError

        enum Source: Sendable {
            case link(LinkBody)
            case origin(OriginTransfer)
        }

        /// Cancels the request when the body and all of its iterators are deallocated.
        final class Storage: Sendable, CustomReflectable {
            private let source: Source
            private let url: URL

            /// Empty: reflection must not reveal the body, or the header fields of the request.
            var customMirror: Mirror { Mirror(self, children: []) }

            init(_ source: Source, _ url: URL) { (self.source, self.url) = (source, url) }

            deinit { cancel() }

            func cancel() {
                switch source {
                case .link(let body): body.cancel()
                case .origin(let transfer): transfer.cancel()
                }
            }

            func next() async throws(URLError) -> Data? {
                do throws(URLError) {
                    return switch source {
                    case .link(let body): try await body.next()
                    case .origin(let transfer): try await transfer.next()
                    }
                } catch {
                    throw error.failing(at: url)
                }
            }
        }

        let storage: Storage

        init(_ source: Source, of url: URL) { storage = Storage(source, url) }

        /// Cancels the request at once. Has no effect after the end.
        public func cancel() { storage.cancel() }

        /// The iterator of a body.
        public struct AsyncIterator: AsyncIteratorProtocol {
            let storage: Storage

            /// Returns the next piece, or `nil` at the end.
            ///
            /// - Throws: A `URLError`: `cancelled` after ``HTTPTunnel/Body/cancel()`` or if the task is cancelled,
            ///   `timedOut` after the request's `timeoutInterval` without progress, `networkConnectionLost` if the body
            ///   is truncated, and the codes of other failures.
            public mutating func next() async throws(URLError) -> Data? { try await storage.next() }

            /// Returns the next piece, or `nil` at the end.
            ///
            /// - Throws: The same errors as ``next()``.
            public mutating func next(isolation actor: isolated (any Actor)?) async throws(URLError) -> Data? {
                try await storage.next()
            }
        }

        /// Returns an iterator.
        public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(storage: storage) }
    }
}

struct TunnelReply: Sendable {
    let response: TunnelResponse
    let body: HTTPTunnel.Body
}
