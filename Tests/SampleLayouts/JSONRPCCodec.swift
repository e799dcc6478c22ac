package import Trunkline

/// JSON-RPC 2.0 (jsonrpc.org/specification), in which both sides send requests, with the cancellation of the Language
/// Server Protocol 3.17 (`$/cancelRequest`). Only numbers as IDs.
///
/// The method is the named field "method". A body is the JSON text of the parameters, of the result, or of the message
/// of an error, whose code is the status.
package struct JSONRPCCodec: FrameCodec, ServingCodec, CancellingCodec {
    package enum Framing: Sendable {
        /// A message is a line.
        case lines
        /// A message has a head with its length, as in the Language Server Protocol ("Base Protocol").
        case contentLength
    }

    private let framing: Framing
    private let maximumSize = 1 << 20

    package init(_ framing: Framing = .lines) { self.framing = framing }

    package var matching: ResponseMatching { .serial(1...SerialNumber(Int32.max)) }

    /// JSON-RPC 2.0, section 5.1; RequestCancelled is 3.17 "Response Message".
    package func refusal(of request: Frame, because reason: ServingRefusal) -> Frame? {
        switch reason {
        case .notServed: Self.error(-32601, "Method not found")
        case .overloaded: Self.error(-32000, "Server overloaded")
        case .malformed: Self.error(-32600, "Invalid Request")
        case .cancelled: Self.error(-32800, "Request cancelled")
        default: Self.error(-32603, "Internal error")
        }
    }

    /// An error response.
    package static func error(_ code: Int32, _ message: Bytes) -> Frame {
        Frame(.response, status: UInt32(bitPattern: code), isErrorResponse: true, body: message)
    }

    package func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? { Frame(.cancel, serial: serial) }

    // MARK: Frames

    package func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let bytes = try message(&input) else { return nil }
        guard let message = JSONValue(String(bytes)) else { throw FrameError(.malformed, "no JSON") }
        let id: SerialNumber? = message["id"]?.integer()
        if let method = message["method"] {
            let parameters = message["params"].map { Self.text(of: $0) } ?? ""
            if method == .text("$/cancelRequest") {
                guard let cancelled: SerialNumber = message["params"]?["id"]?.integer() else { return Frame(.pong) }
                return Frame(.cancel, serial: cancelled)
            }
            var frame = Frame(id == nil ? .push : .request, serial: id ?? 0, body: Bytes(parameters))
            guard let name = method.text else {
                frame.markMalformed(.malformed)
                return frame
            }
            frame[bytes: "method"] = Bytes(name)
            return frame
        }
        guard let id else { return Frame(.pong) }
        guard let error = message["error"] else {
            return Frame(.response, serial: id, body: Bytes(message["result"].map { Self.text(of: $0) } ?? ""))
        }
        var frame = Self.error(error["code"]?.integer() ?? 0, Bytes(error["message"]?.text ?? ""))
        frame.serial = id
        return frame
    }

    private func message(_ input: inout ReceiveBuffer) throws(FrameError) -> Bytes? {
        switch framing {
        case .lines:
            guard let end = input.firstOffset(of: 0x0A) else {
                guard input.count <= maximumSize else { throw FrameError(exceedingLimit: "\(maximumSize) bytes") }
                return nil
            }
            guard let line = input.readBytes(end), input.skip(1) else { return nil }
            return line
        case .contentLength:
            guard let end = input.firstOffset(of: "\r\n\r\n") else {
                guard input.count <= 1000 else { throw FrameError(.malformed, "the head is too long") }
                return nil
            }
            let head = input.withSpan { span in (0..<end).map { span[$0] } }
            let length = String(decoding: head, as: UTF8.self).split(separator: "\r\n").compactMap { line -> Int? in
                line.hasPrefix("Content-Length: ") ? Int(line.dropFirst(16)) : nil
            }.first
            guard let length, 0...maximumSize ~= length else { throw FrameError(.illegalLength, "no length") }
            input.await(end + 4 + length)
            guard input.count >= end + 4 + length, input.skip(end + 4) else { return nil }
            return input.readBytes(length)
        }
    }

    package func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        let method = frame[bytes: "method"].map { JSONText.quoted(String($0)) } ?? "\"\""
        let body = String(frame.body)
        let content =
            switch frame.kind {
            case .request: "\"id\":\(frame.serial),\"method\":\(method)" + (body.isEmpty ? "" : ",\"params\":\(body)")
            case .push: "\"method\":\(method)" + (body.isEmpty ? "" : ",\"params\":\(body)")
            case .cancel: "\"method\":\"$/cancelRequest\",\"params\":{\"id\":\(frame.serial)}"
            case .response where frame.isErrorResponse:
                "\"id\":\(frame.serial),\"error\":{\"code\":\(Int32(bitPattern: frame.status)),\"message\":"
                    + "\(JSONText.quoted(body))}"
            case .response: "\"id\":\(frame.serial),\"result\":\(body.isEmpty ? "null" : body)"
            default: throw FrameError(.malformed, "\(frame.kind)")
            }
        let text = "{\"jsonrpc\":\"2.0\",\(content)}"
        guard !text.utf8.contains(0x0A) else { throw FrameError(.malformed, "a message must not contain a line end") }
        switch framing {
        case .lines: output.append("\(text)\n".utf8)
        case .contentLength: output.append("Content-Length: \(text.utf8.count)\r\n\r\n\(text)".utf8)
        }
    }

    private static func text(of value: JSONValue) -> String {
        switch value {
        case .null: "null"
        case .flag(let flag): "\(flag)"
        case .number(let number): number
        case .text(let text): JSONText.quoted(text)
        case .list(let values): "[" + values.map { self.text(of: $0) }.joined(separator: ",") + "]"
        case .object(let members):
            "{" + members.map { "\(JSONText.quoted($0.name)):\(self.text(of: $0.value))" }.joined(separator: ",") + "}"
        }
    }
}
