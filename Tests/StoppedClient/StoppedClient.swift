import Trunkline

@testable import TrunklineIO

/// A client for the test that stops its process: sends 50 requests at once, and prints how they ended.
@main struct StoppedClient {
    static func main() async throws {
        guard CommandLine.arguments.count == 3 else { fatalError("usage: stopped-client ENDPOINT epoll|poll") }
        let loops = EventLoops(count: 1, mechanism: CommandLine.arguments[2] == "poll" ? .poll : .epoll)
        let client = try Client(to: Endpoint(parsing: CommandLine.arguments[1]), speaking: .standard, on: loops)
        let requests = (0..<50).map { Request(type: 0x410, body: Bytes("\($0)")) }
        let outcomes = await client.send(all: requests, options: CallOptions(timeout: .seconds(10)))
        var ends: [String: Int] = [:]
        for outcome in outcomes {
            switch outcome {
            case .success: ends["answered", default: 0] += 1
            case .failure(let error): ends["\(error.code)", default: 0] += 1
            }
        }
        print(ends.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", "))
        await client.close()
    }
}
