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

        fileprivate var maximum: UInt64 { .max >> UInt64(64 - 8 * (width ?? 8)) }

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
            require((1...8).contains(width), "LengthPrefixedCodec: a length has 1 to 8 bytes, not \(width)", file, line)
            return Length(width: width, order: order, countsItself: countingItself)
        }

        /// The length at the front of `input` and how many bytes it has; `nil` when it is not all there yet.
        fileprivate func read(from input: borrowing ReceiveBuffer) throws(FrameError) -> (value: UInt64, width: Int)? {
            guard let width else { return try input.varint() }
            return input.integer(at: 0, width: width, order: order).map { ($0, width) }
        }
    }

    /// The largest whole frame in bytes, length included, both ways.
    package let maximumFrameSize: Int
    private let length: Length
    /// Where the serial number and the type are within the body.
    private var serial: Slot?
    private var type: Slot?
    /// Those that there are of both, in the order in which they are in the body.
    private var places: [(slot: Slot, holdsType: Bool)] = []
    private var serials: ClosedRange<SerialNumber> = 0...0
    private var reading = FrameReading()

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
        let limit = "maximumFrameSize \(maximumFrameSize)"
        let hasRoom = maximumFrameSize >= least
        require(hasRoom, "LengthPrefixedCodec: \(limit) is less than the \(least) bytes of a length", file, line)
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
        let width = length.width ?? 1
        return min(maximumFrameSize - width, Int(clamping: length.maximum) - (length.countsItself ? width : 0))
    }

    /// The same, matched by a serial number that stands in the body, `offset` bytes from its beginning. The codec writes it
    /// there, over what the request has there: leave as many bytes free, or they are lost. A `FrameLayout` whose
    /// `Field.serial` follows a `Field.length` that counts `.rest` has the same bytes on the wire and keeps the serial
    /// number out of `frame.body`.
    ///
    /// `numbers` are those that the client hands out, up to what the type holds at most; a received frame with another one
    /// is a push. A place beyond the longest body stops the program.
    public func serial<Value: FixedWidthInteger & UnsignedInteger>(
        at offset: Int,
        _ type: Value.Type,
        order: ByteOrder = .bigEndian,
        numbers: some RangeExpression<SerialNumber> = 1...,
        file: StaticString = #fileID,
        line: UInt = #line
    ) -> LengthPrefixedCodec {
        var codec = self
        let place = place(at: offset, width: MemoryLayout<Value>.size, order, file, line)
        let range = Trunkline.numbers(of: numbers)
        guard range != noNumbers, range.lowerBound <= place.maximum else {
            fatalError("LengthPrefixedCodec: no serial number fits \(type)", file: file, line: line)
        }
        codec.serial = place
        codec.serials = range.clamped(to: 0...place.maximum)
        codec.arrangePlaces(file, line)
        return codec
    }

    /// The same with `frame.type`, at most 4 bytes, in the body, `offset` bytes from its beginning, written there as the
    /// serial number is. What the types mean is for `reading` to say. A place beyond the longest body stops the program.
    public func type<Value: FixedWidthInteger & UnsignedInteger>(
        at offset: Int,
        _ type: Value.Type,
        order: ByteOrder = .bigEndian,
        file: StaticString = #fileID,
        line: UInt = #line
    ) -> LengthPrefixedCodec {
        var codec = self
        let width = MemoryLayout<Value>.size
        require(width <= 4, "LengthPrefixedCodec: a type has at most 4 bytes, not \(width)", file, line)
        codec.type = place(at: offset, width: MemoryLayout<Value>.size, order, file, line)
        codec.arrangePlaces(file, line)
        return codec
    }

    /// A place within the body; stops the program unless it is within the longest.
    private func place(at offset: Int, width: Int, _ order: ByteOrder, _ file: StaticString, _ line: UInt) -> Slot {
        let most = largestBody
        let place = "\(width) bytes at offset \(offset)"
        let isWithin = width <= most && offset <= most - width
        require(width <= 8, "LengthPrefixedCodec: a number has at most 8 bytes, not \(width)", file, line)
        require(offset >= 0, "LengthPrefixedCodec: nothing is at offset \(offset)", file, line)
        require(isWithin, "LengthPrefixedCodec: no body has \(place), the longest has \(most)", file, line)
        return Slot(offset: offset, width: width, order: order, region: .header)
    }

    private mutating func arrangePlaces(_ file: StaticString, _ line: UInt) {
        places = [serial.map { ($0, false) }, type.map { ($0, true) }].compactMap { $0 }
        places.sort { $0.slot.offset < $1.slot.offset }
        let isOverlapping = places.count == 2 && places[0].slot.end > places[1].slot.offset
        require(!isOverlapping, "LengthPrefixedCodec: the serial number and the type are in the same place", file, line)
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
        return with(\.reading.heartbeat, (ping, pong))
    }

    /// The same with a say about every frame that a client receives and that is no heartbeat; in place of an earlier one.
    ///
    /// `rule` gets it as a `response`, or as a `push` if its serial number is none of the client's, and may change everything
    /// about it: `kind`, `isErrorResponse`, `status`; or call `markMalformed(_:)` for one that is not acceptable. A frame that
    /// is to be ignored is a `pong`. Called on the client's loop: it must not block.
    ///
    /// A test server asks it whether the client would take a frame for what it is meant to be, and sends none that it would
    /// not.
    public func reading(_ rule: @escaping @Sendable (inout Frame) -> Void) -> LengthPrefixedCodec {
        with(\.reading.rule, rule)
    }

    /// By serial number if it has a place, otherwise in order.
    public var matching: ResponseMatching { serial == nil ? .inOrder : .serial(serials) }

    /// The same codec, for which `key` says what a push is about (`Client.pushes(forKey:buffering:)`).
    public func keyingPushes(by key: @escaping @Sendable (Frame) -> PushKey?) -> LengthPrefixedCodec {
        with(\.reading.pushKey, key)
    }

    // MARK: Bytes in

    /// Takes one frame from the front of `input`; `nil` when it is not complete.
    ///
    /// Throws `illegalLength` for a length above the limit or below what the serial number and the type need, as soon as it
    /// is there, and `malformed` for a varint of more than ten bytes or 64 bits.
    public mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let (value, width) = try length.read(from: input) else { return nil }
        let least = leastBody
        let most = max(0, maximumFrameSize - width)
        let own = length.countsItself ? width : 0
        guard value >= UInt64(least + own), value <= UInt64(most + own) else {
            throw FrameError(.illegalLength, "the length is \(value), not within \(least + own)–\(most + own)")
        }
        let size = Int(value) - own
        guard input.count >= width + size else {
            input.await(width + size)
            return nil
        }
        input.skip(width)
        guard let body = input.readBytes(size) else { return nil }
        if let kind = reading.heartbeatKind(of: body) { return Frame(kind, body: body) }
        var frame = Frame(.response, body: body)
        if let serial {
            frame.serial = try number(at: serial, in: body)
            if !serials.contains(frame.serial) { frame.kind = .push }
        }
        if let type { frame.type = UInt32(truncatingIfNeeded: try number(at: type, in: body)) }
        reading.apply(to: &frame)
        return frame
    }

    /// The least that a body must have. Heartbeats need no serial number, nor a type.
    private var leastBody: Int {
        let least = max(serial?.end ?? 0, type?.end ?? 0)
        guard let heartbeat = reading.heartbeat else { return least }
        return min(least, heartbeat.ping.count, heartbeat.pong.count)
    }

    private func number(at place: Slot, in body: Bytes) throws(FrameError) -> UInt64 {
        let number = body.integer(at: place.offset, width: place.width, order: place.order)
        guard let number else { throw lacking(place, in: body) }
        return number
    }

    private func lacking(_ place: Slot, in body: Bytes) -> FrameError {
        FrameError(.illegalLength, "\(body.count) bytes have no byte \(place.end - 1)")
    }

    // MARK: Bytes out

    /// Appends the length and the body of `frame`, with its serial number and type in their places.
    ///
    /// Throws `illegalLength` for a body that is too long, or too short to hold these; `malformed` for a serial number that
    /// does not fit its place; and `unknownType` for a type that does not, for a frame that its receiver would take for
    /// something else, for a ping without `heartbeat` and for a cancellation.
    public mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        let isPush = serial != nil && !serials.contains(frame.serial)
        let body = try reading.body(of: frame, takenFor: isPush ? .push : .response)
        try appendLength(of: body, to: &output)
        if frame.kind == .ping || frame.kind == .pong { return output.append(body) }
        var start = 0
        for (place, holdsType) in places {
            let value = holdsType ? UInt64(frame.type) : frame.serial
            guard place.end <= body.count else { throw lacking(place, in: body) }
            guard value <= place.maximum else {
                throw FrameError(.malformed, "the number \(value) does not fit in \(place.width) bytes")
            }
            output.append(body.shared(start..<place.offset))
            output.append(integer: value, width: place.width, order: place.order)
            start = place.end
        }
        output.append(body.shared(start..<body.count))
    }

    private func appendLength(of body: Bytes, to output: inout SendBuffer) throws(FrameError) {
        let width = length.width ?? varintWidth(UInt64(body.count))
        let value = UInt64(body.count + (length.countsItself ? width : 0))
        guard value <= length.maximum else {
            throw FrameError(.illegalLength, "a length of \(width) bytes cannot say \(value)")
        }
        guard body.count <= maximumFrameSize - width else {
            throw FrameError(.illegalLength, "\(body.count) bytes and their length are more than \(maximumFrameSize)")
        }
        if length.width == nil {
            output.append(varint: value)
        } else {
            output.append(integer: value, width: width, order: length.order)
        }
    }
}

// What the library asks of `HeartbeatCodec`, `PushKeyCodec` and `ServerSideCodec`, answered as `FrameCodec` wants it: only
// who wraps a codec would call those.
// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension LengthPrefixedCodec {
    public func _ping(number: UInt64) -> Frame? { reading.heartbeat.map { Frame(.ping, body: $0.ping) } }
    public func _pong(answering ping: Frame) -> Frame? { reading.heartbeat.map { Frame(.pong, body: $0.pong) } }
    public var _pongsLookLikePings: Bool { reading.heartbeat.map { $0.ping == $0.pong } ?? false }
    public func _pushKey(of push: Frame) -> PushKey? { reading.pushKey?(push) }
    public func _serverSide() -> any FrameCodec { with(\.reading.isServerSide, true) }
}
