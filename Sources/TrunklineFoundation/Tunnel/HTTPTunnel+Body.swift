public import Foundation
import Trunkline

extension HTTPTunnel {
    /// The body of a response in pieces, as it comes. It can be read once; several iterators share its pieces.
    ///
    /// Where it is cut means nothing. It is cancelled under the same conditions as a `ReplyStream`, when the body and all of
    /// its iterators have been destroyed: in top-level code they are not, so put the loop in a function, or call `cancel()`.
    public struct Body: AsyncSequence, Sendable {
        /// A piece, never empty.
        public typealias Element = Data
        /// What `URLSession` throws.
        public typealias Failure = URLError

        enum Source: Sendable {
            case link(LinkBody)
            case origin(OriginTransfer)
        }

        /// Gives the request up when nobody can read the body any more.
        final class Storage: Sendable {
            private let source: Source
            private let url: URL

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

        /// Gives the request up at once. Without effect after the end.
        public func cancel() { storage.cancel() }

        /// Takes pieces off a body.
        public struct AsyncIterator: AsyncIteratorProtocol {
            let storage: Storage

            /// The next piece; `nil` at the end.
            public mutating func next() async throws(URLError) -> Data? { try await storage.next() }

            /// The next piece; `nil` at the end.
            public mutating func next(isolation actor: isolated (any Actor)?) async throws(URLError) -> Data? {
                try await storage.next()
            }
        }

        /// An iterator.
        public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(storage: storage) }
    }
}

/// A response whose head is there.
struct TunnelReply: Sendable {
    let response: TunnelResponse
    let body: HTTPTunnel.Body
}
