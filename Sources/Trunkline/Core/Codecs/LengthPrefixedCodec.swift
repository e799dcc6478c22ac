/// Frames that begin with their length. Responses match requests in order, or by a serial number within the body.
///
///     length  body
///
/// ```swift
/// let codec = LengthPrefixedCodec(UInt32.self).serial(at: 0, UInt64.self)
/// let other = LengthPrefixedCodec(.varint, maximumFrameSize: 64 * 1024)
/// ```
///
/// The body of a frame is everything behind the length, the serial number included: leave room for it in a request.
/// A length above the limit ends the link, as it may be anything but a length.
public struct LengthPrefixedCodec: FrameCodec {
    /// How the length is written.
    public struct Length: Sendable, Hashable {
        /// 1 to 8 bytes; `nil` for a varint.
        let width: Int?
        let order: ByteOrder
        /// Whether it counts its own bytes.
        let countsItself: Bool

        /// A variable-length integer of at most ten bytes, seven bits in each, the lowest first (LEB128).
        ///
        /// Sent in as few bytes as it needs; received with needless zeros at its end it is taken all the same.
        public static let varint = Length(width: nil, order: .littleEndian, countsItself: false)

        /// An unsigned integer of `width` bytes, 1 to 8, that counts the body, and its own bytes too if `countingItself`.
        public static func integer(
            width: Int,
            order: ByteOrder = .bigEndian,
            countingItself: Bool = false,
            file: StaticString = #fileID,
            line: UInt = #line
        ) -> Length {
            require(
                (1...8).contains(width),
                "LengthPrefixedCodec: a length has 1 to 8 bytes, not \(width)",
                file,
                line
            )
            return Length(width: width, order: order, countsItself: countingItself)
        }
    }

    /// A number within the body.
    struct Place: Sendable {
        let offset: Int
        let width: Int
        let order: ByteOrder

        var end: Int { offset + width }
        var maximum: UInt64 { .max >> UInt64(64 - 8 * width) }

        /// Within bodies of at most `most` bytes.
        init(at offset: Int, width: Int, order: ByteOrder, within most: Int, _ file: StaticString, _ line: UInt) {
            require(width <= 8, "LengthPrefixedCodec: a number has at most 8 bytes, not \(width)", file, line)
            require(offset >= 0, "LengthPrefixedCodec: nothing is at offset \(offset)", file, line)
            require(
                width <= most && offset <= most - width,
                "LengthPrefixedCodec: no body has \(width) bytes at offset \(offset), the longest has \(most)",
                file,
                line
            )
            (self.offset, self.width, self.order) = (offset, width, order)
        }
    }

    /// The largest whole frame in bytes, length included, both ways.
    public let maximumFrameSize: Int
    let length: Length
    var serial: Place?
    var type: Place?
    var serials: ClosedRange<SerialNumber> = 0...0
    var reading = FrameReading()

    /// Frames that begin with `length`, matched in order.
    ///
    /// - Parameters:
    ///   - length: How the length is written.
    ///   - maximumFrameSize: The largest whole frame in bytes, length included, both ways.
    ///   - file, line: Named when the program is stopped for a limit that leaves no room for the length.
    public init(
        _ length: Length,
        maximumFrameSize: Int = 16 * 1024 * 1024,
        file: StaticString = #fileID,
        line: UInt = #line
    ) {
        let least = length.width ?? 1
        require(
            maximumFrameSize >= least,
            "LengthPrefixedCodec: maximumFrameSize \(maximumFrameSize) is less than the \(least) bytes of a length",
            file,
            line
        )
        self.length = length
        self.maximumFrameSize = min(maximumFrameSize, 1 << 48)  // far beyond any memory, and no sum overflows
    }

    /// Frames that begin with an integer of type `length`, matched in order.
    ///
    /// - Parameters:
    ///   - length: `UInt8.self`, `UInt16.self`, `UInt32.self` or `UInt64.self`.
    ///   - order: The order of its bytes.
    ///   - countingItself: Whether it counts its own bytes besides the body's.
    ///   - maximumFrameSize: The largest whole frame in bytes, length included, both ways.
    ///   - file, line: Named when the program is stopped for a limit that leaves no room for the length.
    public init<Value: FixedWidthInteger & UnsignedInteger>(
        _ length: Value.Type,
        order: ByteOrder = .bigEndian,
        countingItself: Bool = false,
        maximumFrameSize: Int = 16 * 1024 * 1024,
        file: StaticString = #fileID,
        line: UInt = #line
    ) {
        let width = MemoryLayout<Value>.size
        self.init(
            .integer(width: width, order: order, countingItself: countingItself, file: file, line: line),
            maximumFrameSize: maximumFrameSize,
            file: file,
            line: line
        )
    }

    /// The most that a body can have, by the limit and by what the length can say.
    private var largestBody: Int {
        guard let width = length.width else { return maximumFrameSize - 1 }
        let largest = UInt64.max >> UInt64(64 - 8 * width) - (length.countsItself ? UInt64(width) : 0)
        return min(maximumFrameSize - width, Int(clamping: largest))
    }

    /// The same, matched by a serial number that stands in the body, `offset` bytes from its beginning. The codec writes it
    /// there, over what the request has there: leave as many bytes free, or they are lost. A `FrameLayout` whose
    /// `Field.serial` follows a `Field.length` that counts `.rest` has the same bytes on the wire and keeps the serial
    /// number out of `frame.body`.
    ///
    /// `numbers` are those that the client hands out, up to what the type holds at most; a received frame with another one
    /// is a push. A place beyond the longest body stops the program.
    public func serial<Value: WireInteger>(
        at offset: Int,
        _ type: Value.Type,
        order: ByteOrder = .bigEndian,
        numbers: some RoleNumbers = 1...,
        file: StaticString = #fileID,
        line: UInt = #line
    ) -> LengthPrefixedCodec {
        var codec = self
        let width = MemoryLayout<Value>.size
        let place = Place(at: offset, width: width, order: order, within: largestBody, file, line)
        guard let range = numbers.numbersOfRole, range != noNumbers, range.lowerBound <= place.maximum else {
            fatalError("LengthPrefixedCodec: no serial number fits \(type)", file: file, line: line)
        }
        codec.serial = place
        codec.serials = range.clamped(to: 0...place.maximum)
        codec.checkPlaces(file, line)
        return codec
    }

    /// The same with `frame.type`, at most 4 bytes, in the body, `offset` bytes from its beginning, written there as the
    /// serial number is. What the types mean is for `reading` to say. A place beyond the longest body stops the program.
    public func type<Value: WireCode>(
        at offset: Int,
        _ type: Value.Type,
        order: ByteOrder = .bigEndian,
        file: StaticString = #fileID,
        line: UInt = #line
    ) -> LengthPrefixedCodec {
        var codec = self
        let width = MemoryLayout<Value>.size
        codec.type = Place(at: offset, width: width, order: order, within: largestBody, file, line)
        codec.checkPlaces(file, line)
        return codec
    }

    private func checkPlaces(_ file: StaticString, _ line: UInt) {
        guard let serial, let type else { return }
        require(
            serial.end <= type.offset || type.end <= serial.offset,
            "LengthPrefixedCodec: the serial number and the type are in the same place",
            file,
            line
        )
    }

    /// The same with heartbeats: a client sends a frame with the body `ping`, as it is, which the server answers with the
    /// body `pong`, or the other way round. No other frame may have these bodies. One that is longer than a body can be
    /// stops the program.
    public func heartbeat(
        ping: Bytes,
        pong: Bytes,
        file: StaticString = #fileID,
        line: UInt = #line
    ) -> LengthPrefixedCodec {
        let (count, most) = (max(ping.count, pong.count), largestBody)
        require(
            count <= most,
            "LengthPrefixedCodec: a heartbeat of \(count) bytes cannot be sent, the longest body has \(most)",
            file,
            line
        )
        var codec = self
        codec.reading.heartbeat = (ping, pong)
        return codec
    }

    /// The same with a say about every frame that a client receives and that is no heartbeat; in place of an earlier one.
    ///
    /// `rule` gets it as a `response`, or as a `push` if its serial number is none of the client's, and may change everything
    /// about it: `kind`, `isErrorResponse`, `status`, or `malformedReason` for one that is not acceptable. A frame that
    /// is to be ignored is a `pong`. Called on the client's loop: it must not block.
    ///
    /// A test server asks it whether the client would take a frame for what it is meant to be, and sends none that it would
    /// not.
    public func reading(_ rule: @escaping @Sendable (inout Frame) -> Void) -> LengthPrefixedCodec {
        var codec = self
        codec.reading.rule = rule
        return codec
    }

    /// By serial number if it has a place, otherwise in order.
    public var matching: ResponseMatching { serial == nil ? .inOrder : .serial(serials) }

    /// The ping of `heartbeat`, if there is one.
    public func ping(number: UInt64) -> Frame? { reading.heartbeat.map { Frame(.ping, body: $0.ping) } }

    /// The pong of `heartbeat`, if there is one.
    public func pong(answering ping: Frame) -> Frame? { reading.heartbeat.map { Frame(.pong, body: $0.pong) } }

    /// Whether the two bodies of `heartbeat` are the same.
    public var pongsLookLikePings: Bool { reading.heartbeat.map { $0.ping == $0.pong } ?? false }

    /// The same protocol as the server sees it: what it receives are requests and heartbeats.
    public func serverSide() -> any FrameCodec {
        var codec = self
        codec.reading.isServerSide = true
        return codec
    }
}

extension FrameCodec where Self == LengthPrefixedCodec {
    /// Frames that begin with an integer of type `length`: `.lengthPrefixed(UInt32.self)`. See `LengthPrefixedCodec`.
    public static func lengthPrefixed<Value: FixedWidthInteger & UnsignedInteger>(
        _ length: Value.Type,
        order: ByteOrder = .bigEndian,
        countingItself: Bool = false,
        maximumFrameSize: Int = 16 * 1024 * 1024,
        file: StaticString = #fileID,
        line: UInt = #line
    ) -> LengthPrefixedCodec {
        LengthPrefixedCodec(
            length,
            order: order,
            countingItself: countingItself,
            maximumFrameSize: maximumFrameSize,
            file: file,
            line: line
        )
    }

    /// Frames that begin with `length`: `.lengthPrefixed(.varint)`. See `LengthPrefixedCodec`.
    public static func lengthPrefixed(
        _ length: LengthPrefixedCodec.Length,
        maximumFrameSize: Int = 16 * 1024 * 1024,
        file: StaticString = #fileID,
        line: UInt = #line
    ) -> LengthPrefixedCodec {
        LengthPrefixedCodec(length, maximumFrameSize: maximumFrameSize, file: file, line: line)
    }
}
