/// What a cached response is found by: the whole request, or a name of your own.
///
/// A request's key is everything that is said in it: type, body, content type and named fields. So two requests that differ
/// in a session token or a time stamp are different; give such a name: `.for(.seconds(60)).keyed(by: "user 7")`. So do for
/// very large requests, which are kept with their responses, and read whenever one is looked for.
public struct CacheKey: Sendable {
    private enum Content: Sendable, Hashable {
        case request(Frame)
        case name(String)
    }

    private var content: Content
    /// Of the content: taken once, so that no lock is held while a large request is read for it.
    private let digest: Int

    private init(_ content: Content) { (self.content, digest) = (content, content.hashValue) }

    /// A name of your own. It is for you to see that calls which use it want the same.
    public init(_ name: String) { self.init(.name(name)) }

    /// The key of calls with `request` that have none of their own.
    public init(_ request: Request) { self.init(.request(request.frame)) }

    /// The key of calls with `request` that have none of their own.
    ///
    /// - Throws: `invalidRequest`, fate `notSent`, when it cannot be encoded.
    public init(_ request: some TypedRequest) throws(ClientError) { self.init(try Request(request)) }

    /// How many bytes it is.
    var size: Int {
        switch content {
        case .request(let frame): frame.contentSize
        case .name(let name): name.utf8.count
        }
    }

    /// The same key, for keeping.
    var compacted: CacheKey {
        guard case .request(let frame) = content else { return self }
        var key = self
        key.content = .request(frame.compacted)
        return key
    }
}

extension CacheKey: Hashable {
    /// Whether what both find is the same.
    public static func == (a: CacheKey, b: CacheKey) -> Bool { a.digest == b.digest && a.content == b.content }

    /// Feeds what stands for the content to `hasher`.
    public func hash(into hasher: inout Hasher) { hasher.combine(digest) }
}

extension CacheKey: ExpressibleByStringInterpolation {
    /// A name of your own, as a literal.
    public init(stringLiteral name: String) { self.init(name) }
}
