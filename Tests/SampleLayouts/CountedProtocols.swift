package import Trunkline

/// Real protocols with a head and a counted payload.
package enum CountedProtocols {
    /// memcached's text protocol (doc/protocol.txt): values are parts, and `END` is the response.
    package static let memcached = CountedPayloadCodec(
        payloadEnd: "\r\n",
        maximumHeadSize: 300,
        maximumFrameSize: 2000
    ) { head in
        head.hasPrefix("VALUE ") ? .count(inWord: 3, of: head) : .absent
    }
    .requests { head in
        head.hasPrefix("set ") ? .count(inWord: 4, of: head) : .absent
    }
    .reading { frame in
        if frame.head.hasPrefix("VALUE ") { frame.kind = .part }
        if frame.head == "ERROR" || frame.head.firstIndex(of: "_ERROR ") != nil { frame.isErrorResponse = true }
    }

    /// NATS (docs.nats.io, Client Protocol). A message to an inbox of the client, `_INBOX.<serial>`, is a response;
    /// every other message is a push.
    package static let nats = CountedPayloadCodec(
        payloadEnd: "\r\n",
        maximumHeadSize: 300,
        maximumFrameSize: 2000,
        matching: .serial(1...UInt64(Int64.max))
    ) { head in
        head.hasPrefix("MSG ") ? .count(inWord: -1, of: head) : .absent
    }
    .requests { head in
        head.hasPrefix("PUB ") ? .count(inWord: -1, of: head) : .absent
    } reading: { frame in
        takeInbox(from: &frame, command: "PUB ", word: 2)
    }
    .heartbeat(ping: "PING", pong: "PONG")
    .reading { frame in
        if !takeInbox(from: &frame, command: "MSG ", word: 1) { frame.kind = .push }
    }
    .writing { frame in
        // A request has the head `PUB subject`, a response `MSG`.
        let inbox: Bytes = " _INBOX.\(frame.serial)"
        switch frame.kind {
        case .request where frame.serial != 0: frame.head = frame.head + inbox + " \(frame.body.count)"
        case .response: frame.head = "MSG" + inbox + " 1 \(frame.body.count)"
        default: break
        }
    }

    /// Removes the word `_INBOX.<serial>` and the words behind it from the head, and sets the serial. Returns whether
    /// the head has such a word.
    @discardableResult
    private static func takeInbox(from frame: inout Frame, command: Bytes, word: Int) -> Bool {
        let words = frame.head.parts(separatedBy: " ")
        guard frame.head.hasPrefix(command), words.count > word, words[word].hasPrefix("_INBOX."),
            let serial = SerialNumber(String(words[word].dropFirst(7))), serial > 0, serial <= Int64.max
        else { return false }
        frame.serial = serial
        frame.head = words[1..<word].reduce(words[0]) { $0 + " " + $1 }
        return true
    }

    /// The Language Server Protocol 3.17 (base protocol): header lines and JSON. The `id` comes first here and is not
    /// part of the body.
    package static let lsp = CountedPayloadCodec(
        headEnd: "\r\n\r\n",
        maximumHeadSize: 300,
        maximumFrameSize: 2000,
        matching: .serial(1...UInt64(Int64.max))
    ) { head in
        .count(inField: "Content-Length", of: head)
    }
    .requests { head in
        .count(inField: "Content-Length", of: head)
    } reading: { frame in
        takeID(from: &frame)
    }
    .reading { frame in
        if !takeID(from: &frame) { frame.kind = .push }
    }
    .writing { frame in
        if frame.serial != 0 { frame.body = "{\"id\":\(frame.serial)," + frame.body }
        frame.head = "Content-Length: \(frame.body.count)"
    }

    @discardableResult
    private static func takeID(from frame: inout Frame) -> Bool {
        guard frame.body.hasPrefix("{\"id\":"), let comma = frame.body.firstIndex(of: UInt8(ascii: ",")),
            let serial = SerialNumber(String(frame.body[6..<comma])), serial > 0, serial <= Int64.max
        else { return false }
        frame.serial = serial
        frame.body = Bytes(frame.body[(comma + 1)...])
        return true
    }
}
