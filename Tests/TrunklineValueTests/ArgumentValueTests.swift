import Testing
import TrunklineHTTP

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineTesting

/// Functions without a client accept any number and duration: they clamp it, or throw.
@Suite(.tags(.simulated))
struct ArgumentValueTests {}

extension ArgumentValueTests {
    @Test(arguments: ArgumentValueTests.cases)
    func noValueOfAnArgumentTraps(_ argument: ValueCase) async throws {
        try await argument.use()
    }

    static let cases = bytes + frames + layouts + codecs + jsonRPC + histograms + texts + http

    // MARK: Bytes

    private static let bytes = [
        ValueCase("Bytes.firstIndex(from: Int)", "Bytes.integer(at: Int)", "Bytes.append(_: UInt8)") {
            var bytes: Bytes = [1, 2, 3]
            for place in Int.extremes {
                _ = bytes.firstIndex(of: [2, 3], from: place)
                _ = bytes.firstIndex(of: [], from: place)
                #expect(bytes.integer(at: place, as: UInt64.self) == nil)
            }
            for byte in UInt8.extremes { bytes.append(byte) }
        },
        ValueCase("Bytes.init(repeating: UInt8, count: Int)") {
            // Larger counts would really be allocated.
            for count in Int.extremes where count < 1 << 20 {
                #expect(Bytes(repeating: 1, count: count).count == max(0, count))
            }
        },
        ValueCase("FrameError.init(announcedSize: UInt64?)") {
            for size in UInt64.extremes {
                #expect(FrameError(exceedingLimit: "too long", announcedSize: size).exceedsLimit)
            }
        },
        ValueCase("Bytes.append(integer: Value)", "SendBuffer.append(integer: Value)") {
            var (bytes, buffer) = (Bytes(), SendBuffer())
            for number in UInt64.extremes {
                bytes.append(integer: number, order: .littleEndian)
                buffer.append(integer: number, order: .littleEndian)
            }
            #expect(Bytes(buffer.bytes) == bytes)
        },
        ValueCase(
            "SendBuffer.append(_: UInt8)",
            "SendBuffer.append(integer: UInt64, width: Int)",
            "SendBuffer.append(varint: UInt64)"
        ) {
            var buffer = SendBuffer()
            for byte in UInt8.extremes { buffer.append(byte) }
            for number in UInt64.extremes {
                buffer.append(varint: number)
                for width in Int.extremes {
                    for order in [ByteOrder.bigEndian, .littleEndian] {
                        let count = buffer.bytes.count
                        buffer.append(integer: number, width: width, order: order)
                        #expect(buffer.bytes.count == count + min(max(width, 0), 8))
                    }
                }
            }
        },
        ValueCase(
            "ReceiveBuffer.byte(at: Int)",
            "ReceiveBuffer.integer(at: Int)",
            "ReceiveBuffer.integer(at: Int, width: Int)",
            "ReceiveBuffer.firstOffset(of: UInt8, from: Int)",
            "ReceiveBuffer.firstOffset(from: Int)",
            "ReceiveBuffer.varint(at: Int, maximumWidth: Int)",
            "ReceiveBuffer.readVarint(maximumWidth: Int)",
            "ReceiveBuffer.readBytes(_: Int)",
            "ReceiveBuffer.skip(_: Int)",
            "ReceiveBuffer.discard(_: Int)",
            "ReceiveBuffer.await(_: Int)"
        ) {
            for place in Int.extremes {
                var buffer = ReceiveBuffer([0x81, 0x82, 0x03, 4, 5, 6, 7, 8, 9])
                _ = buffer.byte(at: place)
                _ = buffer.integer(at: place, as: UInt32.self)
                for byte in UInt8.extremes { _ = buffer.firstOffset(of: byte, from: place) }
                _ = buffer.firstOffset(of: [4, 5], from: place)
                for width in Int.extremes {
                    _ = buffer.integer(at: place, width: width, order: .littleEndian)
                    _ = try? buffer.varint(at: place, maximumWidth: width)
                }
                var copy = buffer
                _ = try? copy.readVarint(maximumWidth: place)
                copy.await(place)
                _ = copy.readBytes(place)
                _ = copy.skip(place)
                copy.await(place)
                copy.discard(place)
                #expect((0...9).contains(copy.count))
            }
        },
    ]

    // MARK: Frames

    private static let frames = [
        ValueCase(
            "Frame.cancelledSerial: SerialNumber?",
            "Frame.init(serial: SerialNumber)",
            "Frame.init(type: UInt32, serial: SerialNumber, status: UInt32)",
            "Frame.serial: SerialNumber",
            "Frame.status: UInt32",
            "Frame.type: UInt32",
            "Frame.wideSerial: UInt128",
            "Frame.subscript -> UInt64?",
            "FrameLayout.cancelFrame(for: SerialNumber, type: UInt32)",
            "FrameLayout.ping(number: UInt64)"
        ) {
            for (number, short) in zip(UInt64.extremes, UInt32.extremes) {
                var frame = Frame(.request, serial: number, head: "head")
                (frame.type, frame.status, frame.session) = (short, short, SessionID(number))
                for high in UInt64.extremes {
                    let wide = UInt128(high) << 64 | UInt128(number)
                    frame.wideSerial = wide
                    #expect(frame.wideSerial == wide && frame.serial == number)
                }
                frame.cancelledSerial = number
                #expect(frame.cancelledSerial == number)
                frame["contentType"] = number
                frame["serial"] = number
                _ = (frame.contentType, "\(frame)")
                for layout in [FrameLayout.standard, .checked, .serial8] {
                    for kind in [Frame.Kind.request, .response, .push, .ping, .part, .cancel] {
                        var sent = Frame(kind, type: short, serial: number, status: short)
                        encode(sent, by: layout)
                        sent["number"] = number
                        encode(sent, by: layout)
                    }
                    let cancel = layout.cancelFrame(for: number, type: short)
                    for frame in [cancel, layout.ping(number: number)] { frame.map { encode($0, by: layout) } }
                    frame.serial = number
                    _ = try? layout.check(frame, against: frame)
                }
            }
        },
        ValueCase("Request.init(type: UInt32)", "Request.type: UInt32", "Request.subscript -> UInt64?") {
            for number in UInt64.extremes {
                var request = Request(type: UInt32(truncatingIfNeeded: number))
                request["contentType"] = number
                request.type = UInt32(clamping: number)
                _ = (request.contentType, "\(request)")
            }
        },
        ValueCase(
            "Response.init(type: UInt32, status: UInt32)",
            "Response.subscript -> UInt64?",
            "PushMessage.init(type: UInt32)",
            "PushMessage.subscript -> UInt64?"
        ) {
            for number in UInt32.extremes {
                var (response, push) = (Response(type: number, status: number), PushMessage(type: number))
                for value in UInt64.extremes {
                    (response["contentType"], push["contentType"]) = (value, value)
                    _ = ("\(response)", "\(push)", response.contentType, push.contentType)
                }
            }
        },
        ValueCase("ContentType.init(rawValue: UInt32)", "ContentType.rawValue: UInt32") {
            for number in UInt32.extremes {
                var type = ContentType(rawValue: number)
                type.rawValue = number
                _ = "\(type)"
            }
        },
        ValueCase("FrameLayout.namingRequests(_: [UInt32 : String])") {
            let names = Dictionary(uniqueKeysWithValues: Set(UInt32.extremes).map { ($0, "name\n\($0)") })
            let layout = FrameLayout.standard.namingRequests(names).namingRequests([:])
            for type in UInt32.extremes {
                #expect(layout.name(of: Frame(.request, type: type)) == "name\n\(type)")
            }
        },
        ValueCase("MessageDigest.pbkdf2(iterations: Int, count: Int?)") {
            for number in Int.extremes {
                for (iterations, count) in [(number, nil), (1, number)] {
                    let bytes = try? MessageDigest.sha256.pbkdf2(
                        password: [1],
                        salt: [2],
                        iterations: iterations,
                        count: count
                    )
                    #expect(bytes?.count == (number == 1 ? count ?? 32 : nil))
                }
            }
        },
        ValueCase("PushKey.number(_: UInt64)", "PushKey.init(integerLiteral: UInt64)") {
            for number in UInt64.extremes { #expect(PushKey.number(number) == PushKey(integerLiteral: number)) }
        },
    ]

    // MARK: Layouts

    private static let layouts = [
        ValueCase(
            "Field.bytes(_: Int)",
            "Field.reserved(_: Int)",
            "Field.serial(width: Int)",
            "Field.status(width: Int)",
            "Field.type(width: Int)",
            "Field.length(width: Int)",
            "Field.integer(width: Int, default: UInt64)",
            "Field.integer(default: UInt64)",
            "Field.contentType(default: UInt64)",
            "Field.kind(_: [Frame.Kind : UInt64])",
            "LengthCount.plus(_: Int)",
            "Checksum.init(width: Int)"
        ) {
            for width in Int.extremes {
                use(.bytes("a", width))
                use(.bytes("a", width, default: []))
                use(.reserved(width))
                use(.serial(width: width))
                use(.status(width: width))
                use(.type(width: width))
                use(length: .length(width: width, counting: .wholeFrame))
                for extent in [LengthCount.body, .wholeFrame, .rest] {
                    use(length: .length(UInt16.self, counting: extent.plus(width).plus(width)))
                    use(length: .varintLength(counting: extent.plus(width)))
                }
                for number in UInt64.extremes { use(.integer("a", width: width, default: number)) }
                use(.checksum(Checksum("sum", width: width) { _ in [1, 2] }, over: .body))
                _ = Checksum("sum", width: width) { _ in [1, 2] }.bytes(of: "a")
            }
            for number in UInt64.extremes {
                use(.integer("a", UInt8.self, default: number))
                use(.contentType(UInt32.self, default: number))
                use(.kind(UInt8.self, [.request: number, .response: 0, .push: number]))
                use(.kind(UInt64.self, [.request: number, .response: 5]))
            }
        },
        ValueCase("Field.body(sizes: some RangeExpression<Int>)") {
            for range in ClosedRange<Int>.extremes {
                use(body: .body(sizes: range))
                use(body: .body(sizes: range.lowerBound...))
                use(body: .body(sizes: ...range.upperBound))
                use(body: .body(sizes: ..<range.upperBound))
                use(body: .body(sizes: range.lowerBound..<range.upperBound))
            }
        },
        ValueCase(
            "Role.init(integerLiteral: UInt32)",
            "Role.type(_: UInt32)",
            "Role.types(_: some RangeExpression<UInt32>)",
            "Role.bit(_: Int)",
            "Role.bits(_: some RangeExpression<Int>, holding: some RangeExpression<UInt64>)",
            "Role.field(_: UInt64)",
            "Role.field(_: some RangeExpression<UInt64>)"
        ) {
            for number in UInt32.extremes { use([Role(integerLiteral: number), .type(number)]) }
            for range in ClosedRange<UInt32>.extremes {
                use([.types(range), .types(range.lowerBound...), .types(...range.upperBound)])
                use([.types(..<range.upperBound), .types(range.lowerBound..<range.upperBound)])
            }
            for bit in Int.extremes + [31, 32, 63, 64] { use([.bit(bit), .bit(bit, of: "number")]) }
            for bits in ClosedRange<Int>.extremes + [0...31, 0...63, 0...64, 1...63, 63...64] {
                use([.bits(bits), .bits(bits.lowerBound...), .bits(...bits.upperBound), .bits(..<bits.upperBound)])
                use([.bits(bits.lowerBound..<bits.upperBound), .bits(bits, of: "number")])
                for range in ClosedRange<UInt64>.extremes {
                    use([.bits(bits, holding: range), .bits(bits, of: "number", holding: range.lowerBound...)])
                }
            }
            for number in UInt64.extremes { use([.field("number", number)]) }
            for range in ClosedRange<UInt64>.extremes {
                use([.field("number", range), .field("number", range.lowerBound...)])
                use([.field("number", ...range.upperBound), .field("number", ..<range.upperBound)])
            }
        },
        ValueCase(
            "FrameLayout.Roles.cancel: UInt32?",
            "FrameLayout.Roles.closing: UInt32?",
            "FrameLayout.Roles.ping: UInt32?",
            "FrameLayout.Roles.pong: UInt32?",
            "FrameLayout.Roles.requests: (any RangeExpression<UInt32>)?",
            "FrameLayout.Roles.serials: (any RangeExpression<SerialNumber>)?",
            "FrameLayout.Roles.window: UInt32?",
            "FrameLayout.Roles.Statuses.init(integerLiteral: UInt32)",
            "FrameLayout.Roles.Statuses.status(_: UInt32)",
            "FrameLayout.Roles.Statuses.statuses(_: some RangeExpression<UInt32>)",
            "FrameLayout.requiringBody(inResponsesTo: some RangeExpression<UInt32>)"
        ) {
            let layout = FrameLayout.serial8
            for number in UInt32.extremes {
                _ = try? layout.validatingRoles { $0.ping = number }
                _ = try? layout.validatingRoles { ($0.ping, $0.pong) = (1, number) }
                _ = try? layout.validatingRoles { $0.cancel = number }
                _ = try? layout.validatingRoles { $0.window = number }
                _ = try? layout.validatingRoles { $0.closing = number }
                for success in [FrameLayout.Roles.Statuses(integerLiteral: number), .status(number)] {
                    _ = try? layout.validatingRoles { $0.success = success }
                }
            }
            for range in ClosedRange<UInt32>.extremes {
                _ = try? layout.validatingRoles { $0.success = .statuses(range) }
                _ = try? layout.validatingRoles { $0.requests = range }
                _ = try? layout.validatingRoles { $0.requests = ..<range.upperBound }
                // A range that was read is a range that can be set.
                _ = try? layout.validatingRoles {
                    $0.requests = range
                    $0.requests = $0.requests
                }
                _ = layout.requiringBody(inResponsesTo: range)
            }
            for range in ClosedRange<UInt64>.extremes {
                _ = try? layout.validatingRoles { $0.serials = range }
                _ = try? layout.validatingRoles {
                    $0.serials = ...range.upperBound
                    $0.serials = $0.serials
                }
                guard let made = try? layout.validatingRoles({ ($0.ping, $0.serials) = (1, range) }) else { continue }
                for number in UInt64.extremes { made.ping(number: number).map { encode($0, by: made) } }
            }
        },
        ValueCase(
            "CountedPayloadCodec.ping(number: UInt64)",
            "DelimitedCodec.ping(number: UInt64)",
            "LengthPrefixedCodec.ping(number: UInt64)"
        ) {
            let counted = CountedPayloadCodec { _ in .bytes(0) }.heartbeat(ping: "PING", pong: "PONG")
            let delimited = DelimitedCodec(delimiter: "\r\n").heartbeat(ping: "PING", pong: "PONG")
            let prefixed = LengthPrefixedCodec(UInt8.self)
            for number in UInt64.extremes {
                #expect(counted.ping(number: number)?.head == "PING")
                #expect(delimited.ping(number: number)?.body == "PING")
                #expect(prefixed.ping(number: number) == nil)
            }
        },
        ValueCase("FrameLayout.maximumFrameSize: Int") {
            for size in Int.extremes {
                for layout in [FrameLayout.standard, .checked, .serial8] {
                    var layout = layout
                    layout.maximumFrameSize = size
                    #expect(layout.maximumFrameSize >= max(12, size))
                    encode(Frame(.request, body: "hello"), by: layout)
                    _ = layout.byteTable
                }
            }
        },
        ValueCase("FrameLayout.wiresharkDissector(port: UInt16)") {
            for port in UInt16.extremes { _ = FrameLayout.standard.wiresharkDissector(name: "a", port: port) }
        },
    ]

    /// Makes a layout with `field`, which may be invalid, and uses it.
    private static func use(_ field: Field) { use([.serial(UInt64.self), field, length, .body]) }
    private static func use(length: Field) { use([.serial(UInt64.self), length, .body]) }
    private static func use(body: Field) { use([.serial(UInt64.self), length, body]) }

    private static let length = Field.length(UInt32.self, counting: .body)

    private static func use(_ fields: [Field]) {
        guard let layout = try? FrameLayout(validating: fields) else { return }
        encode(Frame(.request, serial: 1, body: "hello"), by: layout)
        encode(Frame(.request, serial: .max), by: layout)
        _ = layout.byteTable
    }

    /// Gives each role to the layout `serial8`, which may be impossible, and uses the layout.
    private static func use(_ roles: [Role]) {
        for role in roles {
            let layouts = [
                try? FrameLayout.serial8.validatingRoles { $0.push = role },
                try? FrameLayout.serial8.validatingRoles { ($0.response, $0.part) = (role, role) },
                try? FrameLayout.serial8.validatingRoles { $0.failure = role },
                try? FrameLayout.serial8.validatingRoles { $0.goAway = role },
            ]
            for layout in layouts.compactMap({ $0 }) {
                for kind in [Frame.Kind.request, .response, .push, .part, .goAway] {
                    for number in UInt32.extremes {
                        var frame = Frame(kind, type: number, serial: 1, status: number, isErrorResponse: true)
                        encode(frame, by: layout)
                        frame["number"] = UInt64(number)
                        encode(frame, by: layout)
                    }
                }
            }
        }
    }

    /// Encodes a frame on both sides, or lets the codec refuse it, and decodes the bytes on the other side.
    private static func encode(_ frame: Frame, by codec: some FrameCodec) {
        let server = ProtocolCodec(codec).serverSide()
        for (sender, receiver) in [(codec, server), (server, codec)] as [Pair] {
            var (sender, receiver, output) = (sender, receiver, SendBuffer())
            guard (try? sender.encode(frame, into: &output)) != nil else { continue }
            var input = ReceiveBuffer(Bytes(output.bytes))
            _ = try? receiver.decode(&input)
        }
    }

    private typealias Pair = (any FrameCodec, any FrameCodec)

    // MARK: Codecs

    private static let codecs = [
        ValueCase("DelimitedCodec.init(parts: Int, maximumFrameSize: Int)") {
            for parts in Int.extremes {
                for size in Int.extremes {
                    encode(
                        Frame(.request, body: "hello"),
                        by: DelimitedCodec(delimiter: "\r\n", parts: parts, maximumFrameSize: size)
                    )
                }
            }
        },
        ValueCase("CountedPayloadCodec.init(maximumHeadSize: Int, maximumFrameSize: Int)") {
            for head in Int.extremes {
                for frame in Int.extremes {
                    let codec = CountedPayloadCodec(maximumHeadSize: head, maximumFrameSize: frame) { _ in .bytes(5) }
                    encode(Frame(.request, head: "a", body: "hello"), by: codec)
                    encode(Frame(.request, head: "", body: "hello"), by: codec)
                }
            }
        },
        ValueCase(
            "CountedPayloadCodec.setMaximumFrameSize(_: Int)",
            "DelimitedCodec.setMaximumFrameSize(_: Int)",
            "FrameLayout.setMaximumFrameSize(_: Int)",
            "LengthPrefixedCodec.setMaximumFrameSize(_: Int)"
        ) {
            let codecs: [any FrameLimitCodec] = [
                CountedPayloadCodec { _ in .bytes(5) }, DelimitedCodec(delimiter: "\r\n"), FrameLayout.standard,
                LengthPrefixedCodec(.varint),
            ]
            for size in Int.extremes {
                for codec in codecs {
                    var codec = codec
                    codec.setMaximumFrameSize(size)
                    encode(Frame(.request, head: "a", body: "hello"), by: codec)
                }
            }
        },
        ValueCase("ServerReason.init(code: Int?)") {
            for code in Int.extremes { #expect(ServerReason(code: code, text: "a").description == "\(code): a") }
        },
        ValueCase("CountedPayloadCodec.Payload.bytes(_: Int)", "CountedPayloadCodec.Payload.count(inWord: Int)") {
            for count in Int.extremes {
                for limit in [100, Int.max] {
                    let codec = CountedPayloadCodec(maximumFrameSize: limit) { _ in .bytes(count) }
                    encode(Frame(.request, head: "a", body: "hello"), by: codec)
                    var (receiver, input) = (codec, ReceiveBuffer("a\r\nhello"))
                    _ = try? receiver.decode(&input)
                }
                _ = CountedPayloadCodec.Payload.count(inWord: count, of: "a 1 2")
            }
        },
        ValueCase("LengthPrefixedCodec.init(maximumFrameSize: Int)") {
            for size in Int.extremes {
                for countsItself in [false, true] {
                    encode(
                        Frame(.request, body: "hello"),
                        by: LengthPrefixedCodec(UInt64.self, countingItself: countsItself, maximumFrameSize: size)
                    )
                }
                encode(Frame(.request, body: "hello"), by: LengthPrefixedCodec(.varint, maximumFrameSize: size))
                encode(Frame(.request), by: LengthPrefixedCodec(UInt8.self, maximumFrameSize: size))
            }
        },
        // A width or a place beyond the frame is part of the declaration of a format, which stops the program with a
        // message (see `CallerMistakeTests`). Everything within is valid.
        ValueCase(
            "LengthPrefixedCodec.serial(at: Int, numbers: some RangeExpression<UInt64>)",
            "LengthPrefixedCodec.type(at: Int)",
            "LengthPrefixedCodec.Length.integer(width: Int)"
        ) {
            for width in 1...8 {
                for range in ClosedRange<UInt64>.extremes {
                    let codec = LengthPrefixedCodec(.integer(width: width)).serial(at: 0, UInt64.self, numbers: range)
                        .type(at: 8, UInt32.self)
                    for number in UInt64.extremes {
                        let body = Bytes(repeating: 0, count: 12)
                        encode(Frame(.request, type: UInt32(clamping: number), serial: number, body: body), by: codec)
                    }
                }
            }
            let codec = LengthPrefixedCodec(.integer(width: 8), maximumFrameSize: .max)
            encode(Frame(.request, serial: 1), by: codec.serial(at: 1 << 40, UInt64.self).type(at: 0, UInt8.self))
        },
        ValueCase("CodecConformance.init(maximumFrameSize: Int)", "CodecConformance.seed: UInt64") {
            let samples = [CodecConformance.Sample(Frame(.request, type: 0x410, serial: 60, body: "hello"))]
            for size in Int.extremes {
                _ = CodecConformance(of: FrameLayout.standard, samples: samples, maximumFrameSize: size)
                var small = FrameLayout.standard
                small.maximumFrameSize = size
                _ = CodecConformance(of: small, samples: samples)
            }
            for seed in UInt64.extremes {
                var small = FrameLayout.standard
                small.maximumFrameSize = 100
                var kit = CodecConformance(of: small, samples: samples)
                (kit.seed, kit.garbageInputs, kit.corruptedInputs) = (seed, 20, 20)
                _ = kit.check()
            }
        },
    ]

    // MARK: Measurements

    private static let histograms = [
        ValueCase(
            "LatencyHistogram.record(_: Duration)",
            "LatencyHistogram.percentile(_: Double)",
            "LatencyHistogram.counts(upTo: [Duration])"
        ) {
            var histogram = LatencyHistogram()
            for duration in Duration.extremes { histogram.record(duration) }
            // As an exporter does that adds up snapshots without removing the earlier ones.
            for _ in 0..<200 {
                histogram.merge(histogram)
                #expect(histogram.count > 0 && histogram.sum > .zero)
                _ = (histogram.mean, histogram.buckets)
                for percent in Double.extremes { _ = histogram.percentile(percent) }
                _ = histogram.counts(upTo: Duration.extremes)
            }
            histogram.remove(histogram)
            #expect(histogram.count == 0 && histogram.sum == .zero)
        },
        ValueCase(
            "ReconnectFailure.init(round: Int, failedAttempts: Int)",
            "ReconnectFailure.round: Int",
            "ReconnectFailure.failedAttempts: Int"
        ) {
            for number in Int.extremes {
                var failure = ReconnectFailure(round: number, failedAttempts: number, cause: .refused)
                (failure.round, failure.failedAttempts) = (number, number)
                for backoff in [Backoff(), Backoff(factor: 1), Backoff(factor: 1 + .ulpOfOne)] {
                    _ = backoff.decision(for: failure) { 0.5 }
                }
            }
        },
        ValueCase("TimelineRecorder.init(capacity: Int)") {
            for capacity in Int.extremes { #expect(TimelineRecorder(capacity: capacity).timelines.isEmpty) }
        },
        ValueCase("ClientEvent.Kinds.init(rawValue: UInt32)") {
            for number in UInt32.extremes { _ = "\(ClientEvent.Kinds(rawValue: number))" }
        },
    ]

    // MARK: Descriptions

    private static let texts =
        [
            ValueCase(
                "ConnectionState.connecting(attempt: Int)",
                "ConnectionState.handshaking(attempt: Int)",
                "ConnectionState.resolving(attempt: Int)",
                "ConnectionState.securing(attempt: Int)",
                "ConnectionState.waiting(delay: Duration, attempt: Int)"
            ) {
                for attempt in Int.extremes {
                    let states: [ConnectionState] = [
                        .connecting("a:1", attempt: attempt), .handshaking("a:1", attempt: attempt),
                        .resolving("a:1", attempt: attempt), .securing("a:1", attempt: attempt),
                    ]
                    _ = "\(states)"
                    for delay in Duration.extremes {
                        _ = "\(ConnectionState.waiting(delay: delay, attempt: attempt, cause: .refused))"
                    }
                }
                for number in UInt64.extremes { _ = "\(ConnectionState.ready("a:1", session: SessionID(number)))" }
            },
            ValueCase(
                "ClientEvent.Content.certificateSeen(timeLeft: Duration)",
                "ClientEvent.Content.clientDeallocated(pending: Int)",
                "ClientEvent.Content.datagramsDropped(_: Int)",
                "ClientEvent.Content.processOutput(omitted: Int)",
                "ClientEvent.Content.unknownResponse(serial: SerialNumber, type: UInt32)",
                "ClientEvent.Content.messageWritten(after: Duration)",
                "ClientEvent.Content.pushesDropped(_: Int)",
                "ClientEvent.Content.serverRequestsDropped(_: Int)",
                "ClientEvent.Content.serverRequestsRefused(_: Int)",
                "ClientEvent.Content.requestFailed(after: Duration)",
                "ClientEvent.Content.requestRejected(type: UInt32, status: UInt32)",
                "ClientEvent.Content.responseInvalid(type: UInt32)",
                "ClientEvent.Content.requestRetrying(tryNumber: Int, delay: Duration)",
                "RequestID.init(_: UInt64)",
                "RequestID.init(integerLiteral: UInt64)",
                "RequestID.advanced(by: Int)",
                "SessionID.init(_: UInt64)",
                "SessionID.init(integerLiteral: UInt64)",
                "ClientEvent.Value.integer(_: Int64)",
                "ClientEvent.Value.seconds(_: Double)"
            ) {
                for number in UInt64.extremes {
                    let (id, session) = (RequestID(number), SessionID(number))
                    #expect(RequestID(integerLiteral: number) == id && SessionID(integerLiteral: number) == session)
                    #expect("\(id)" == "\(number)" && "\(session)" == "\(number & (1 << 63 - 1))")
                    for count in Int.extremes { #expect(id.distance(to: id.advanced(by: count)) == count) }
                    for duration in Duration.extremes {
                        let certificate = CertificateExpiry(
                            .client,
                            TLSCertificate(
                                subject: "CN=a",
                                issuer: "CN=b",
                                names: [],
                                notBefore: .min,
                                notAfter: .max,
                                fingerprint: ""
                            )
                        )
                        let contents: [ClientEvent.Content] = [
                            .certificateSeen("a:1", certificate, timeLeft: duration),
                            .lateResponse(id: id), .messageWritten(id: id, after: duration),
                            .pushesDropped(.max, stream: "all"),
                            .requestAdmitted(id: id, session: session), .requestFirstPart(id: id),
                            .requestFailed(id: id, ClientError(.timedOut, .unknown, "a"), after: duration),
                            .requestRetrying(id: id, tryNumber: .min, delay: duration),
                            .requestWaiting(id: id, for: .link),
                            .requestsWritten(ids: [id], session: session),
                            .linkDraining("a:1", session: session, .goAway, reason: "rule"),
                            .loopLate(LoopDelay(.busy, from: .distantPast, to: .distantFuture)),
                            .unknownResponse(serial: .max, type: .max, session: session),
                            .responseUndecodable(.cancelledUnsent),
                            .requestRetrying(id: id, tryNumber: .max, delay: duration),
                            .pushesDropped(.min, stream: ""),
                            .serverRequestsRefused(.max, because: .failed), .serverRequestsDropped(.max),
                            .serverRequestsRefused(.min, because: .failed), .serverRequestsDropped(.min),
                            .requestRejected(id: id, type: .max, status: .max, nil, name: nil),
                            .requestRejected(id: id, type: .min, status: .min, nil, name: nil),
                            .responseInvalid(id: id, type: .max, .cancelledUnsent),
                            .clientDeallocated(pending: .min), .clientDeallocated(pending: .max),
                            .datagramsDropped(.min, "a:1", FrameError(.malformed, "a")),
                            .datagramsDropped(.max, "a:1", FrameError(.malformed, "a")),
                            .processOutput("a:1", session: session, line: "", omitted: .min),
                            .processOutput("a:1", session: session, line: "b", omitted: .max),
                        ]
                        for content in contents { _ = ClientEvent(content, at: Instant(nanoseconds: .max)).fields }
                    }
                }
                for number in Int64.extremes { _ = "\(ClientEvent.Value.integer(number))" }
                for seconds in Double.extremes { _ = "\(ClientEvent.Value.seconds(seconds))" }
            },
            ValueCase("TLSFailure.alert(_: UInt8)", "TransportError.errno: Int32") {
                for number in UInt8.extremes { _ = "\(TransportError(.tls(.alert(number)), "a"))" }
                for number in Int32.extremes {
                    var error = TransportError(.system, "a")
                    error.errno = number
                    _ = "\(error)"
                }
            },
            ValueCase("Proxy.http(port: UInt16)", "Proxy.socks5(port: UInt16)") {
                for port in UInt16.extremes {
                    #expect(
                        "\(Proxy.http("a", port: port)) \(Proxy.socks5("a", port: port))"
                            == "http://a:\(port) socks5://a:\(port)"
                    )
                }
            },
            ValueCase("ProxyFailure.other(_: UInt16)") {
                for number in UInt16.extremes {
                    let error = TransportError(.proxy(.other(number)), "no")
                    #expect(error.code == .proxy(.other(number)) && "\(error)".contains("no"))
                }
            },
            ValueCase("ProcessExit.status(_: UInt8)", "ProcessExit.signal(_: UInt8)") {
                for number in UInt8.extremes {
                    for exit in [ProcessExit.status(number), .signal(number)] {
                        let error = TransportError(.exited(exit), "\(exit)")
                        #expect(error.exit == exit && "\(error)".contains("\(number)"))
                    }
                }
            },
            ValueCase("Endpoint.vsock(cid: UInt32, port: UInt32)") {
                for number in UInt32.extremes {
                    let endpoint = Endpoint.vsock(cid: number, port: number)
                    #expect("\(endpoint)" == "vsock://\(number):\(number)")
                }
            },
            ValueCase("Endpoint.descriptors(reading: Int32, writing: Int32)") {
                // None of them is open.
                for (reading, writing) in [(Int32.min, Int32.max), (.max, -1), (-1, -1)] {
                    let endpoint = Endpoint.descriptors(reading: reading, writing: writing)
                    let options = ClientOptions { $0.reconnecting.maximumAttempts = 1 }
                    let client = Client(to: endpoint, speaking: .standard, options: options)
                    await #expect(throws: ClientError.self) { try await client.connect() }
                    await client.close()
                }
            },
            ValueCase("Endpoint.host(port: UInt16)", "Endpoint.udp(port: UInt16)") {
                for port in UInt16.extremes {
                    #expect(
                        "\(Endpoint.host("a", port: port)) \(Endpoint.udp("a", port: port))"
                            == "a:\(port) udp://a:\(port)"
                    )
                }
            },
        ] + metrics + cacheMetrics

    // MARK: HTTP

    private static let http = [
        ValueCase("HTTP1Response.init(_: Int)", "HTTP1Response.status: Int") {
            for status in Int.extremes {
                var response = HTTP1Response(status)
                response.status = status
                #expect(throws: FrameError.self) { try response.frame() }
            }
        },
        ValueCase(
            "HTTP1Codec.init(rejecting: ClosedRange<Int>?)",
            "HTTP1Codec.rejected: ClosedRange<Int>?",
            "HTTP1Codec.maximumHeadSize: Int",
            "HTTP1Codec.maximumBodySize: Int",
            "HTTP1Codec.maximumFields: Int",
            "HTTP1Codec.partSize: Int"
        ) {
            for range in ClosedRange<Int>.extremes {
                use(HTTP1Codec(host: "a", rejecting: range))
                use(HTTP1Codec(host: "a") { $0.rejected = range })
            }
            for number in Int.extremes {
                let changes: [@Sendable (inout HTTP1Codec) -> Void] = [
                    { $0.maximumHeadSize = number }, { $0.maximumBodySize = number }, { $0.maximumFields = number },
                    { $0.partSize = number },
                ]
                for change in changes {
                    use(HTTP1Codec(host: "a", change))
                    var codec = HTTP1Codec(host: "a")
                    change(&codec)
                    use(codec)
                }
            }
        },
    ]

    /// Sends a request to the server side of `codec` and decodes responses of both framings, or lets the codec refuse.
    private static func use(_ codec: HTTP1Codec) {
        let texts: [Bytes] = [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\nhello",
        ]
        for text in texts {
            guard let request = try? HTTP1Request(.post, "/", headers: ["A": "b"], body: "hello").frame() else {
                return
            }
            var (client, server, output) = (codec, codec.serverSide(), SendBuffer())
            if (try? client.encode(request, into: &output)) != nil {
                var input = ReceiveBuffer(Bytes(output.bytes))
                _ = try? server.decode(&input)
            }
            client.noteSent(request)
            var input = ReceiveBuffer(text)
            while (try? client.decode(&input)) ?? nil != nil {}
            _ = try? client.decodeEnd(&input)
        }
    }
}

extension FrameLayout {
    /// A layout with the widest fields.
    fileprivate static let serial8 = FrameLayout {
        Field.type(UInt32.self)
        Field.serial(UInt64.self)
        Field.status(UInt32.self)
        Field.integer("number", UInt64.self)
        Field.length(UInt64.self, counting: .wholeFrame)
        Field.body
    }
}
