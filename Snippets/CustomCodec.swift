// A custom codec is a value with two methods and a property. This one handles lines of text that are answered in order.
// (For lines alone, use `DelimitedCodec`.)

import Trunkline
import TrunklineTesting

/// Lines that end with a newline. Responses that begin with "ERR" are error responses.
struct LineCodec: FrameCodec, ServerSideCodec {
    var matching: ResponseMatching { .inOrder }
    /// The kind of the frames that this side receives.
    var received = Frame.Kind.response
    var maximumLine = 8192

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        let end = input.firstOffset(of: UInt8(ascii: "\n"))
        guard end ?? input.count <= maximumLine else { throw FrameError(exceedingLimit: "a line that is too long") }
        guard let end else { return nil }  // the line is not complete yet
        guard let body = input.readBytes(end), input.skip(1) else { return nil }
        return Frame(received, isErrorResponse: String(body).hasPrefix("ERR"), body: body)
    }

    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        guard frame.body.count <= maximumLine else { throw FrameError(exceedingLimit: "a line that is too long") }
        guard !frame.body.contains(UInt8(ascii: "\n")) else { throw FrameError(.malformed, "a newline in a line") }
        output.append(frame.body)
        output.append(UInt8(ascii: "\n"))
    }

    /// The codec of test servers: it receives requests.
    func serverSide() -> any FrameCodec { LineCodec(received: .request) }
}

let server = try await LoopbackServer.start(speaking: LineCodec()) { request in
    String(request.body) == "QUIT" ? .reply("ERR not today") : .reply("+\(String(request.body))")
}
try await withClient(to: server.endpoint, speaking: LineCodec()) { client in
    let replies = await client.send(all: ["GET a", "QUIT", "GET b"].map { Request(body: Bytes($0)) })
    for reply in replies {
        switch reply {
        case .success(let frame): print(String(frame.body))
        case .failure(let error): print("\(error.code): \(error.response.map { String($0.body) } ?? "")")
        }
    }
    do throws(ClientError) {
        _ = try await client.send(Request(body: "two\nlines"))
    } catch {
        print("\(error.code), fate \(error.fate): \(error.cause.map { "\($0)" } ?? "")")
    }
}
await server.stop()
print("CustomCodec: done")
