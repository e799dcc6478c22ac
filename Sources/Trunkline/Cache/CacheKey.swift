/// What a cached response is found by: the whole request, or a name of your own.
///
/// A request's key is everything that is said in it: type, body, content type and named fields. So two requests that differ
/// in a session token or a time stamp are different; give such a name: `.for(.seconds(60)).keyed(by: "user 7")`. So do for
/// very large requests, which are kept with their responses, and read whenever one is looked for.
public struct CacheKey: Sendable, Hashable {
    private enum Content: Sendable, Hashable {
        case request(Frame)
        case name(String)
    }

    /// With the hash of the content: taken once, so that no lock is held while a large request is read for it.
    private struct Digested: Sendable, Hashable {
        var content: Content
        let digest: Int

        static func == (a: Digested, b: Digested) -> Bool { a.digest == b.digest && a.content == b.content }

        func hash(into hasher: inout Hasher) { hasher.combine(digest) }
    }

    private var digested: Digested

    private init(_ content: Content) { digested = Digested(content: content, digest: content.hashValue) }

    /// A name of your own. It is for you to see that calls which use it want the same.
    public init(_ name: String) { self.init(.name(name)) }

    /// The key of calls with `request` that have none of their own. Of a typed request: `CacheKey(try Request(typed))`.
    public init(_ request: Request) { self.init(.request(request.frame)) }

    /// How many bytes it is.
    var size: Int {
        switch digested.content {
        case .request(let frame): frame.contentSize
        case .name(let name): name.utf8.count
        }
    }

    /// The same key, for keeping.
    var compacted: CacheKey {
        guard case .request(let frame) = digested.content else { return self }
        var key = self
        key.digested.content = .request(frame.compacted)
        return key
    }
}

extension CacheKey: ExpressibleByStringInterpolation {
    /// A name of your own, as a literal.
    public init(stringLiteral name: String) { self.init(name) }
}
