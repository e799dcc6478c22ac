public import TrunklineCore

/// A codec for frames that begin with their length. Responses are matched in order, or by a serial number within the
/// body.
///
///     length  body
///
/// ```swift
/// let codec = LengthPrefixedCodec(UInt32.self).serial(at: 0, UInt64.self)
/// let other = LengthPrefixedCodec(.varint, maximumFrameSize: 64 * 1024)
/// ```
///
/// The body of a frame is everything after the length, including the serial number: leave room for the serial in the
/// body of a request.
///
/// A received length above the limit ends the link, because the start of the next frame is then unknown.
public struct LengthPrefixedCodec: FrameCodec {
    /// The format of the length.
    public struct Length: Sendable, Hashable {
        /// 1 to 8 bytes; `nil` for a varint.
        let width: Int?
        let order: ByteOrder
        let countsItself: Bool

        fileprivate var maximum: UInt64 { .max >> UInt64(64 - 8 * (width ?? 8)) }

        /// A variable-length integer (LEB128) of at most ten bytes: seven bits in each byte, the lowest first.
        ///
        /// It is sent in as few bytes as possible. A received length may have more bytes than necessary.
        public static let varint = Length(width: nil, order: .littleEndian, countsItself: false)

        /// Returns an unsigned integer of `width` bytes.
        ///
        /// - Parameters:
        ///   - width: The number of bytes, 1 to 8. Another width stops the program.
        ///   - order: The order of the bytes.
        ///   - countingItself: Whether the length counts its own bytes in addition to the body's.
        ///   - file: The file that the failure message names. The default is the caller's.
        ///   - line: The line that the failure message names. The default is the caller's.
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

        fileprivate func read(from input: borrowing ReceiveBuffer) throws(FrameError) -> (value: UInt64, width: Int)? {
            guard let width else { return try input.varint() }
            return input.integer(at: 0, width: width, order: order).map { ($0, width) }
        }
    }

    /// In bytes, length included, in both directions.
    private(set) var maximumFrameSize: Int
    private let length: Length
    /// Positions within the body.
    private var serial: Slot?
    private var type: Slot?
    /// In the order of their offsets.
    private var places: [(slot: Slot, holdsType: Bool)] = []
    private var serials: ClosedRange<SerialNumber> = 0...0
    private var reading = FrameReading()

    /// Creates a codec for frames that begin with `length`, matched in order.
    ///
    /// - Parameters:
    ///   - length: The format of the length.
    ///   - maximumFrameSize: The largest whole frame in bytes, length included, in both directions. At least the
    ///     size of the length, less counts as that; at most 2⁴⁸. The default is 16 MiB.
    public init(_ length: Length, maximumFrameSize: Int = 16 * 1024 * 1024) {
        self.length = length
        self.maximumFrameSize = Self.limit(maximumFrameSize, length)
    }

    /// Creates a codec for frames that begin with an integer of type `length`, matched in order.
    ///
    /// - Parameters:
    ///   - length: `UInt8.self`, `UInt16.self`, `UInt32.self` or `UInt64.self`.
    ///   - order: The order of the bytes.
    ///   - countingItself: Whether the length counts its own bytes in addition to the body's.
    ///   - maximumFrameSize: The largest whole frame in bytes, length included, in both directions. At least the
    ///     size of the length, less counts as that; at most 2⁴⁸. The default is 16 MiB.
    ///   - file: The file that the failure message names. The default is the caller's.
    ///   - line: The line that the failure message names. The default is the caller's.
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
            maximumFrameSize: maximumFrameSize
        )
    }

    private var largestBody: Int {
        let width = length.width ?? 1
        return min(maximumFrameSize - width, Int(clamping: length.maximum) - (length.countsItself ? width : 0))
    }

    /// Returns a copy of this codec that matches responses by a serial number within the body.
    ///
    /// The codec writes the serial number over the bytes of the body at `offset`, so a request must leave that many
    /// bytes free there. A ``FrameLayout`` whose ``Field/serial(_:order:)`` follows a
    /// ``Field/length(_:counting:order:)`` that counts `.rest` has the same bytes on the wire and keeps the serial
    /// number out of ``Frame/body``.
    ///
    /// A received frame whose serial is not one of `numbers` is a push, unless ``reading(_:)`` decides otherwise.
    ///
    /// - Parameters:
    ///   - offset: The distance of the first byte from the beginning of the body, in bytes. A position beyond the
    ///     longest body stops the program.
    ///   - type: The type of the integer: `UInt8.self`, `UInt16.self`, `UInt32.self` or `UInt64.self`.
    ///   - order: The order of the bytes.
    ///   - numbers: The serials that the client uses, limited to those that fit in the type; `1...` by default.
    ///   - file: The file that the failure message names. The default is the caller's.
    ///   - line: The line that the failure message names. The default is the caller's.
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
        guard let range = numbersIfAny(of: numbers), range.lowerBound <= place.maximum else {
            fatalError("LengthPrefixedCodec: none of the serial numbers fits \(type)", file: file, line: line)
        }
        codec.serial = place
        codec.serials = range.clamped(to: 0...place.maximum)
        codec.arrangePlaces(file, line)
        return codec
    }

    /// Returns a copy of this codec that reads and writes ``Frame/type`` within the body.
    ///
    /// The codec writes the type over the bytes of the body at `offset`, as it does with the serial number.
    /// ``reading(_:)`` decides what a type means.
    ///
    /// - Parameters:
    ///   - offset: The distance of the first byte from the beginning of the body, in bytes. A position beyond the
    ///     longest body stops the program.
    ///   - type: The type of the integer, at most 4 bytes wide.
    ///   - order: The order of the bytes.
    ///   - file: The file that the failure message names. The default is the caller's.
    ///   - line: The line that the failure message names. The default is the caller's.
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

    private func place(at offset: Int, width: Int, _ order: ByteOrder, _ file: StaticString, _ line: UInt) -> Slot {
        let most = largestBody
        let place = "\(width) bytes at offset \(offset)"
        let isWithin = width <= most && offset <= most - width
        require(width <= 8, "LengthPrefixedCodec: a number has at most 8 bytes, not \(width)", file, line)
        require(offset >= 0, "LengthPrefixedCodec: the offset must be at least 0, not \(offset)", file, line)
        require(isWithin, "LengthPrefixedCodec: \(place) exceed the longest body (\(most) bytes)", file, line)
        return Slot(offset: offset, width: width, order: order, region: .header)
    }

    private mutating func arrangePlaces(_ file: StaticString, _ line: UInt) {
        places = [serial.map { ($0, false) }, type.map { ($0, true) }].compactMap { $0 }
        places.sort { $0.slot.offset < $1.slot.offset }
        let isOverlapping = places.count == 2 && places[0].slot.end > places[1].slot.offset
        require(!isOverlapping, "LengthPrefixedCodec: the serial number and the type overlap", file, line)
    }

    /// Returns a copy of this codec with heartbeats: frames with the body `ping`, answered by frames with the body
    /// `pong`.
    ///
    /// Both sides may send pings. The bodies are sent as they are, without a serial number or a type. No other frame
    /// may have these bodies. A body that is too long stops the program.
    ///
    /// - Parameters:
    ///   - ping: The body of a ping.
    ///   - pong: The body of its answer.
    ///   - file: The file that the failure message names. The default is the caller's.
    ///   - line: The line that the failure message names. The default is the caller's.
    public func heartbeat(
        ping: Bytes,
        pong: Bytes,
        file: StaticString = #fileID,
        line: UInt = #line
    ) -> LengthPrefixedCodec {
        let (count, most) = (max(ping.count, pong.count), largestBody)
        require(
            count <= most,
            "LengthPrefixedCodec: a heartbeat of \(count) bytes cannot be sent; a body has at most \(most)",
            file,
            line
        )
        return with(\.reading.heartbeat, (ping, pong))
    }

    /// Returns a copy of this codec in which `rule` sets the kind and other properties of received frames. It replaces
    /// an earlier rule.
    ///
    /// `rule` is called for every frame that the client receives, except heartbeats. At first, the frame is a
    /// `response`, or a `push` if its serial number is not one of the client's. The rule may change any property
    /// (`kind`, `isErrorResponse`, `status`) and call ``Frame/markMalformed(_:)`` for an invalid frame. To ignore a
    /// frame, set its kind to `ignored`. The rule is called on the event loop, so it must not block.
    ///
    /// A test server also applies the rule to the frames that it sends. It cannot send a frame to which the rule gives
    /// another kind.
    public func reading(_ rule: @escaping @Sendable (inout Frame) -> Void) -> LengthPrefixedCodec {
        with(\.reading.rule, rule)
    }

    /// By serial if ``serial(at:_:order:numbers:file:line:)`` was called, otherwise in order.
    public var matching: ResponseMatching { serial == nil ? .inOrder : .serial(serials) }

    /// Returns a copy of this codec in which `key` returns the key of a push, for
    /// ``RequestSender/pushes(forKey:buffering:)``.
    /// It replaces an earlier closure. For the rules that `key` must follow, see ``PushKeyCodec/pushKey(of:)``.
    public func keyingPushes(by key: @escaping @Sendable (Frame) -> PushKey?) -> LengthPrefixedCodec {
        with(\.reading.pushKey, key)
    }

    /// Consumes one frame at the front of `input` and returns it, or returns `nil` if it is incomplete.
    ///
    /// - Parameter input: The received bytes that are not decoded yet.
    /// - Throws: An error that ends the link: `illegalLength`, as soon as the length has arrived, if it is above the
    ///   limit or too small for the serial number and the type; `malformed` for a varint of more than ten bytes or more
    ///   than 64 bits.
    public mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let (value, width) = try length.read(from: input) else { return nil }
        let least = leastBody
        let most = max(0, maximumFrameSize - width)
        let own = length.countsItself ? width : 0
        guard value >= UInt64(least + own), value <= UInt64(most + own) else {
            let message =
                "the length is \(value), not within \(least + own)–\(most + own) (maximumFrameSize \(maximumFrameSize))"
            guard value > UInt64(most + own) else { throw FrameError(.illegalLength, message) }
            throw FrameError(exceedingLimit: message, announcedSize: value)
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

    /// Heartbeats need neither a serial number nor a type.
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
        FrameError(
            .illegalLength,
            "a body of \(byteSize(body.count)) is too short for the number that ends at byte \(place.end)"
        )
    }

    /// Appends the length and the body of `frame`, with its serial number and type at their positions.
    ///
    /// - Parameters:
    ///   - frame: The frame to send.
    ///   - output: The buffer to append to.
    /// - Throws:
    ///   - `illegalLength` for a body that is too long, or too short for the serial number and the type;
    ///   - `malformed` for a serial number or type that does not fit its integer;
    ///   - `unknownType` for a frame that its receiver would read as another kind of frame, for a ping or pong without
    ///     ``heartbeat(ping:pong:file:line:)``, and for a cancellation.
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
            throw FrameError(.illegalLength, "a length field of \(width) bytes cannot hold \(value)")
        }
        guard body.count <= maximumFrameSize - width else {
            throw FrameError(
                .illegalLength,
                "a body of \(body.count) bytes and its length exceed \(maximumFrameSize) bytes (maximumFrameSize)"
            )
        }
        if length.width == nil {
            output.append(varint: value)
        } else {
            output.append(integer: value, width: width, order: length.order)
        }
    }
}

extension LengthPrefixedCodec: NamingCodec, HeartbeatCodec, PushKeyCodec, ServerSideCodec {
    /// Returns the ping that `heartbeat(ping:pong:)` declares, or `nil` if it was not called.
    public func ping(number: UInt64) -> Frame? { reading.heartbeat.map { Frame(.ping, body: $0.ping) } }

    /// Returns the answer that `heartbeat(ping:pong:)` declares, or `nil` if it was not called.
    public func pong(answering ping: Frame) -> Frame? { reading.heartbeat.map { Frame(.pong, body: $0.pong) } }

    /// Whether `heartbeat(ping:pong:)` declares the same text for pings and their answers.
    public var pongsLookLikePings: Bool { reading.heartbeat.map { $0.ping == $0.pong } ?? false }

    /// Returns the key that `keyingPushes(by:)` declares, or `nil` if it was not called.
    public func pushKey(of push: Frame) -> PushKey? { reading.pushKey?(push) }

    /// Returns the server side of the same codec. It decodes requests and encodes responses and pushes.
    public func serverSide() -> any FrameCodec { with(\.reading.isServerSide, true) }

    /// Returns a copy of this codec in which `name` returns the name of a request, for the log and for errors. It
    /// replaces an earlier closure. For the rules that `name` must follow, see ``NamingCodec/name(of:)``.
    public func namingRequests(by name: @escaping @Sendable (Frame) -> String?) -> LengthPrefixedCodec {
        with(\.reading.name, name)
    }

    /// Returns the name that ``namingRequests(by:)`` declares, or `nil` if it was not called.
    public func name(of request: Frame) -> String? { reading.name?(request) }

    /// Whether ``namingRequests(by:)`` was called.
    public var namesEachRequest: Bool { reading.name != nil }
}

extension LengthPrefixedCodec: FrameLimitCodec {
    /// At most 2⁴⁸, more than any memory, so that no sum of two sizes overflows.
    private static func limit(_ size: Int, _ length: Length) -> Int { min(max(size, length.width ?? 1), largestSize) }

    /// Sets `maximumFrameSize`, to at least the size of the length.
    public mutating func setMaximumFrameSize(_ size: Int) { maximumFrameSize = Self.limit(size, length) }
}
