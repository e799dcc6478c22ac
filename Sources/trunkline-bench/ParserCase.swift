import Trunkline

/// A parser of bytes from a peer, with content that is expensive for it.
struct ParserCase: Sendable {
    /// Bytes that a peer sends.
    struct Content {
        var bytes: [UInt8]
        /// The number of messages in them.
        var messages = 1

        /// Whether the messages are small.
        var isSmall: Bool { bytes.count < 512 * messages }
    }

    /// How the bytes are read.
    enum Reading: Sendable {
        /// As the bytes of a link. The client has sent `after` once for each message.
        case codec(any FrameCodec, after: Frame? = nil)
        /// As the answers of a proxy.
        case exchange(@Sendable () throws -> any OpeningExchange)
        /// All at once, by a function. Throws if the bytes are not accepted.
        case function(@Sendable ([UInt8]) throws -> Void)
    }

    /// The part of the library that reads.
    let parser: String
    /// What is expensive.
    let content: String
    /// What limits the work that one message can cause, other than the largest size of a message; empty for nothing.
    var limit = ""
    let reading: Reading
    /// Whether the messages are malformed. They cost as much.
    var isMalformed = false
    /// Returns about so many bytes.
    let make: @Sendable (Int) -> Content

    var name: String { "\(parser): \(content)" }

    /// Whether the bytes can arrive in pieces.
    var hasPieces: Bool { if case .function = reading { false } else { true } }

    /// Bytes of a piece.
    static let pieceSize = 1024
    /// The most frames that a link decodes in one step.
    private static let framesAtOnce = 256

    /// Prepares everything that is not to be measured, and returns what is: it reads `content` and returns the number
    /// of frames.
    func prepared(_ content: Content, inPieces: Bool) throws -> () throws -> Int {
        switch reading {
        case .codec(let codec, let request):
            var codec = LinkCodec(codec)
            if let request { for _ in 0..<content.messages { codec.noteSent(request) } }
            return inPieces ? readInPieces(content, codec) : readAtOnce(content, codec)
        case .exchange(let make):
            let exchange = try make()
            return { try Self.hold(exchange, content.bytes, inPieces: inPieces) }
        case .function(let function):
            return {
                try function(content.bytes)
                return content.messages
            }
        }
    }

    private func readAtOnce(_ content: Content, _ codec: LinkCodec) -> () throws -> Int {
        let input = ReceiveBuffer(content.bytes)
        return {
            var (codec, input) = (codec, input)
            let count = try decode(&input, &codec)
            guard input.isEmpty else { throw BenchError("\(name): \(input.count) bytes are left") }
            return count
        }
    }

    private func readInPieces(_ content: Content, _ codec: LinkCodec) -> () throws -> Int {
        {
            var (codec, input, memory, rest) = (codec, ReceiveBuffer(), ReceiveMemory(), content.bytes[...])
            var count = 0
            while !rest.isEmpty {
                let piece = rest.prefix(Self.pieceSize)
                rest = rest.dropFirst(piece.count)
                input.borrow(&memory)
                _ = unsafe input.fill { free in
                    unsafe piece.withUnsafeBytes { unsafe free.copyMemory(from: $0) }
                    return (piece.count, ())
                }
                count += try decode(&input, &codec)
                input.giveBack(to: &memory)
            }
            guard input.isEmpty else { throw BenchError("\(name): \(input.count) bytes are left") }
            return count
        }
    }

    /// Decodes all complete frames, as many at a time as a link does, and returns their number.
    private func decode(_ input: inout ReceiveBuffer, _ codec: inout LinkCodec) throws -> Int {
        var (count, frames) = (0, [Frame]())
        repeat {
            frames.removeAll(keepingCapacity: true)
            try codec.decodeAll(&input, into: &frames, limit: Self.framesAtOnce)
            count += frames.count
            for frame in frames where (frame.malformedReason != nil) != isMalformed {
                throw BenchError("\(name): a frame is \(isMalformed ? "not " : "")malformed")
            }
        } while frames.count == Self.framesAtOnce
        return count
    }

    private static func hold(_ exchange: any OpeningExchange, _ bytes: [UInt8], inPieces: Bool) throws -> Int {
        var (exchange, rest, input) = (exchange, bytes[...], [UInt8]()[...])
        while !rest.isEmpty {
            let piece = inPieces ? rest.prefix(pieceSize) : rest
            rest = rest.dropFirst(piece.count)
            input += piece
            var isWaiting = false
            while !isWaiting {
                switch try exchange.receive(&input) {
                case .wait: isWaiting = true
                case .send: break
                case .done:
                    guard rest.isEmpty, input.isEmpty else { throw BenchError("the exchange ended too early") }
                    return 1
                }
            }
        }
        throw BenchError("the exchange did not end")
    }
}

// MARK: - Making content

extension ParserCase.Content {
    /// `head`, then `unit` until there are about `size` bytes, then `tail`.
    init(_ size: Int, _ head: String = "", repeating unit: String, _ tail: String = "") {
        self.init(size, Array(head.utf8), repeating: Array(unit.utf8), Array(tail.utf8))
    }

    init(_ size: Int, _ head: [UInt8] = [], repeating unit: [UInt8], _ tail: [UInt8] = []) {
        let count = max(1, (size - head.count - tail.count) / unit.count)
        // In large steps, because valgrind runs this, too.
        let units = max(1, 4096 / unit.count)
        let block = [UInt8]((0..<units).map { _ in unit }.joined())
        bytes = head
        bytes.reserveCapacity(head.count + count * unit.count + tail.count)
        for _ in 0..<count / units { bytes += block }
        for _ in 0..<count % units { bytes += unit }
        bytes += tail
    }

    /// `message` until there are about `size` bytes.
    static func messages(_ size: Int, _ message: String) -> ParserCase.Content { messages(size, Array(message.utf8)) }

    static func messages(_ size: Int, _ message: [UInt8]) -> ParserCase.Content {
        var content = ParserCase.Content(size, repeating: message)
        content.messages = content.bytes.count / message.count
        return content
    }
}

/// `text`, `count` times.
func times(_ count: Int, _ text: String) -> String { String(repeating: text, count: count) }
