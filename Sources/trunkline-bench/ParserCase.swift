import Trunkline

/// A parser of bytes from a peer, with content that is expensive for it.
struct ParserCase: Sendable {
    struct Content {
        var bytes: [UInt8]
        var messages = 1

        var isSmall: Bool { bytes.count < 512 * messages }
    }

    enum Reading: Sendable {
        /// The client has sent `after` once for each message.
        case codec(any FrameCodec, after: Frame? = nil)
        case exchange(@Sendable () throws -> any OpeningExchange)
        case function(@Sendable ([UInt8]) throws -> Void)
    }

    let parser: String
    let content: String
    /// What limits the work of one message, other than its largest size.
    var limit = ""
    let reading: Reading
    var isMalformed = false
    let make: @Sendable (Int) -> Content

    var name: String { "\(parser): \(content)" }

    var hasPieces: Bool { if case .function = reading { false } else { true } }

    static let pieceSize = 1024
    private static let framesAtOnce = 256

    /// Prepares what is not measured. The returned function reads `content` and returns the number of frames.
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
                unsafe input.fill { free in
                    unsafe piece.withUnsafeBytes { unsafe free.copyMemory(from: $0) }
                    return piece.count
                }
                count += try decode(&input, &codec)
                input.giveBack(to: &memory)
            }
            guard input.isEmpty else { throw BenchError("\(name): \(input.count) bytes are left") }
            return count
        }
    }

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

    static func messages(_ size: Int, _ message: String) -> ParserCase.Content { messages(size, Array(message.utf8)) }

    static func messages(_ size: Int, _ message: [UInt8]) -> ParserCase.Content {
        var content = ParserCase.Content(size, repeating: message)
        content.messages = content.bytes.count / message.count
        return content
    }
}

func times(_ count: Int, _ text: String) -> String { String(repeating: text, count: count) }
