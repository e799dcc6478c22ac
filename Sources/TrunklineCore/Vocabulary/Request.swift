/// A message to the server: a request, which has a response, or a one-way message, which has none.
///
/// The client adds what the protocol needs to match the response, such as the serial number.
public struct Request: Sendable, Hashable {
    /// Its serial is set when it is put on a link.
    package var frame: Frame

    package init(_ frame: Frame) { self.frame = frame }

    /// Creates a request.
    ///
    /// - Parameters:
    ///   - type: The protocol's number for this type of request. Default: 0, for protocols that have no types.
    ///   - body: The body. Default: empty.
    public init(type: UInt32 = 0, body: Bytes = Bytes()) {
        frame = Frame(.request, type: type, body: body)
    }

    /// The protocol's number for this type of request.
    public var type: UInt32 {
        get { frame.type }
        set { frame.type = newValue }
    }

    /// The body of the message.
    public var body: Bytes {
        get { frame.body }
        set { frame.body = newValue }
    }

    /// A named integer field of the header, which the layout declares with `Field.integer`; `nil` if it is not set.
    ///
    /// A request that sets a field that the layout does not declare fails with `invalidRequest`, fate `notSent`.
    public subscript(field: String) -> UInt64? {
        get { frame[field] }
        set { frame[field] = newValue }
    }

    /// The format of the body, in protocols whose layout has the field "contentType".
    ///
    /// A layout without that field ignores this property. It does not make the request fail, as other unknown fields
    /// do.
    public var contentType: ContentType? {
        get { frame.contentType }
        set { frame.contentType = newValue }
    }

    /// A named byte field of the header, which the layout declares with `Field.bytes`; `nil` if it is not set.
    ///
    /// A request that sets a field that the layout does not declare, or a value of the wrong length, fails with
    /// `invalidRequest`, fate `notSent`.
    public subscript(bytes field: String) -> Bytes? {
        get { frame[bytes: field] }
        set { frame[bytes: field] = newValue }
    }
}
