import Synchronization
import Trunkline
import TrunklineTesting

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Callers of a client, on real threads. The input says how many, which of them are cancelled, and when.
enum FuzzCalls {
    static func run(_ input: inout FuzzInput) {
        let count = 1 + input.below(64)
        let actions = (0..<count).map { _ in input.next() }
        let isOver = Atomic(false)
        // Unstructured: libFuzzer calls a synchronous function, which waits for the task.
        Task.detached {
            await converse(actions)
            isOver.store(true, ordering: .releasing)
        }
        // Polls: the target has no library with semaphores, and the thread has nothing else to do.
        while !isOver.load(ordering: .acquiring) { usleep(100) }
    }

    private static func converse(_ actions: [UInt8]) async {
        do {
            try await withLoopbackServer(speaking: .standard) { server in
                let client = Client(to: server.endpoint, speaking: .standard)
                await withTaskGroup(of: Void.self) { group in
                    for (number, action) in actions.enumerated() {
                        group.addTask { await call(client, number, action) }
                    }
                }
                await client.close()
            }
        } catch {
            fatalError("the server failed: \(error)")
        }
    }

    private static func call(_ client: Client, _ number: Int, _ action: UInt8) async {
        let body = Bytes("call \(number)".utf8)
        let task = Task {
            do throws(ClientError) {
                let response = try await client.send(Request(type: 0x402, body: body))
                guard response.body == body else { fatalError("call \(number) got the response of another") }
            } catch {
                guard error.code == .cancelled, action & 3 != 0 else { fatalError("call \(number) failed: \(error)") }
            }
        }
        switch action & 3 {
        case 1: task.cancel()
        case 2:
            await Task.yield()
            task.cancel()
        case 3:
            try? await Task.sleep(for: .microseconds(Int(action) * 4))
            task.cancel()
        default: break
        }
        await task.value
    }
}
