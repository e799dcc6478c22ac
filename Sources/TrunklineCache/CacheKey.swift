public import TrunklineCore

/// The key of a cached response: a whole request, or a custom name.
///
/// The key of a request contains its type, body, content type and named fields. So two requests that differ only in a
/// session token or a time stamp have different keys. Give such requests a custom key:
/// `.for(.seconds(60)).keyed(by: "user 7")`. Also use a custom key for very large requests, because a request that is a
/// key is kept with its response and compared on every lookup.
public struct CacheKey: Sendable, Hashable {
    private enum Content: Sendable, Hashable {
        case request(Frame)
        case name(String)
    }

    /// Hashed once, so that no lock is held while a large request is hashed.
    private struct Digested: Sendable, Hashable {
        var content: Content
        let digest: Int

        static func == (a: Digested, b: Digested) -> Bool { a.digest == b.digest && a.content == b.content }

        func hash(into hasher: inout Hasher) { hasher.combine(digest) }
    }

    private var digested: Digested

    private init(_ content: Content) { digested = Digested(content: content, digest: content.hashValue) }

    /// Creates a custom key. All calls that use it get each other's responses, so use it only for requests with the
    /// same meaning.
    ///
    /// - Parameter name: The name.
    public init(_ name: String) { self.init(.name(name)) }

    /// Creates the key of a request. This is the key of calls whose policy has no custom key. For a typed request,
    /// write `CacheKey(try Request(typed))`.
    ///
    /// - Parameter request: The request.
    public init(_ request: Request) { self.init(.request(request.frame)) }

    var size: Int {
        switch digested.content {
        case .request(let frame): frame.contentSize
        case .name(let name): name.utf8.count
        }
    }

    var compacted: CacheKey {
        guard case .request(let frame) = digested.content else { return self }
        var key = self
        key.digested.content = .request(frame.compacted)
        return key
    }
}

extension CacheKey: ExpressibleByStringInterpolation {
    /// Creates a custom key from a string literal.
    ///
    /// - Parameter name: The name.
    public init(stringLiteral name: String) { self.init(name) }
}
