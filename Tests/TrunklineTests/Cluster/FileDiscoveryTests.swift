import Foundation
import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineTesting

/// A file with servers: when it is read, and what is reported.
@Suite struct WatchedFileTests {
    private let file = TextFile()

    @Test func aFileIsReadWhenItHasChanged() {
        var watched = WatchedFile(file.path)
        file.write("a:1\n")
        #expect(watched.look() == .list(["a:1"]))
        #expect(watched.look() == nil)
        #expect(watched.look() == nil)
        file.write("a:1\nb:1 weight=2\n")
        #expect(watched.look() == .list([ClusterEndpoint("a:1"), ClusterEndpoint("b:1", weight: 2)]))
        #expect(watched.look() == nil)
    }

    @Test func aFileThatWasReplacedIsRead() {
        var watched = WatchedFile(file.path)
        file.write("a:1\n")
        #expect(watched.look() == .list(["a:1"]))
        file.replace("b:1\n")
        #expect(watched.look() == .list(["b:1"]))
    }

    /// The clock of the file system stands still for milliseconds. The second of two changes of the same size in this time
    /// was not seen.
    @Test func aChangeWithTheSameTimeAndSizeIsSeen() {
        for round in 0..<20 {
            var watched = WatchedFile(file.path)
            file.write("a:1\n")
            #expect(watched.look() == .list(["a:1"]))
            file.write("b:1\n")
            #expect(watched.look() == .list(["b:1"]), "round \(round)")
        }
    }

    @Test func anErrorIsReportedOnceForEachState() throws {
        var watched = WatchedFile(file.path)
        guard case .failure(let missing)? = watched.look() else { throw Unexpected() }
        #expect("\(missing)".contains(file.path) && "\(missing)".contains("No such file"), "\(missing)")
        for _ in 0..<3 { #expect(watched.look() == nil) }

        file.write("a:1\nb\n")
        guard case .failure(let invalid)? = watched.look() else { throw Unexpected() }
        #expect("\(invalid)".hasPrefix("reading \(file.path): line 2: "), "\(invalid)")
        for _ in 0..<3 { #expect(watched.look() == nil) }

        file.write("a:1\nb:1\nc\n")
        guard case .failure? = watched.look() else { throw Unexpected() }
        file.write("a:1\n")
        #expect(watched.look() == .list(["a:1"]))
        file.remove()
        guard case .failure? = watched.look() else { throw Unexpected() }
        // The same list again, because the cluster has to know that the error is over.
        file.write("a:1\n")
        #expect(watched.look() == .list(["a:1"]))
    }

    @Test func aFileThatIsTooLargeIsAnError() throws {
        var watched = WatchedFile(file.path)
        file.write("a:1\n" + String(repeating: "#", count: WatchedFile.limit - 4))
        #expect(watched.look() == .list(["a:1"]))
        file.write("a:1\n" + String(repeating: "#", count: WatchedFile.limit - 3))
        guard case .failure(let error)? = watched.look() else { throw Unexpected() }
        #expect("\(error)".contains("more than 1048576 bytes") && "\(error)".contains(file.path))
    }

    @Test func aDirectoryOrAnInvalidPathIsAnError() throws {
        for path in [NSTemporaryDirectory(), "a\0b", ""] {
            var watched = WatchedFile(path)
            guard case .failure? = watched.look() else { throw Unexpected() }
            #expect(watched.look() == nil)
        }
    }

    private struct Unexpected: Error {}
}

/// The same in virtual time.
@Suite(.simulated) struct FileDiscoverySimulationTests {
    private let file = TextFile()

    @Test func aFileIsCheckedAtTheGivenInterval() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            file.write("a:1\n")
            let running = RunningDiscovery(.file(file.path, every: .seconds(10)), on: network.loop)
            try await network.clock.sleep(for: .seconds(1))
            #expect(running.latest == ["a:1"])
            file.replace("b:1\n")
            try await network.clock.sleep(for: .seconds(8))
            #expect(running.latest == ["a:1"])
            try await network.clock.sleep(for: .seconds(2))
            #expect(running.latest == ["b:1"])
            file.remove()
            try await network.clock.sleep(for: .seconds(1000))
            #expect(running.count == 3 && running.errors.count == 1)
            running.cancel()
            try await network.clock.sleep(for: .milliseconds(1))
            #expect(running.isOver)
        }
    }

    @Test func aFileIsCheckedAtMostEvery100Milliseconds() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            file.write("a:1\n")
            let running = RunningDiscovery(.file(file.path, every: .zero), on: network.loop)
            try await network.clock.sleep(for: .milliseconds(1))
            file.replace("b:1\n")
            try await network.clock.sleep(for: .milliseconds(300))
            #expect(running.times.count == 2)
            #expect(running.times[1] - running.times[0] == .milliseconds(100))
            running.cancel()
        }
    }
}

/// The same in real time.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5))) struct FileDiscoveryLoopbackTests {
    private let file = TextFile()
    private let loop = Mechanism.epoll.loops.next()

    private func wait(_ running: RunningDiscovery, until isMet: (RunningDiscovery) -> Bool) async {
        while !isMet(running) { await moment() }
    }

    @Test func aChangedFileIsANewList() async throws {
        file.write("a:1\n")
        let running = RunningDiscovery(.file(file.path, every: .milliseconds(1)), on: loop)
        await wait(running) { $0.latest == ["a:1"] }
        file.replace("a:1\nb:1\n")
        await wait(running) { $0.latest == ["a:1", "b:1"] }
        file.replace("nonsense\n")
        await wait(running) { $0.errors.count == 1 }
        // Checked several times more.
        try await Task.sleep(for: .milliseconds(500))
        #expect(running.errors.count == 1 && running.lists.count == 2)
        running.cancel()
        await wait(running) { $0.isOver }
    }

    @Test func aClusterFollowsAFile() async throws {
        try await withLoopbackServer(speaking: .standard) { first in
            try await withLoopbackServer(speaking: .standard) { second in
                file.write("\(first.endpoint)\n")
                let cluster = Cluster(
                    discovering: .file(file.path, every: .milliseconds(100)),
                    speaking: .standard,
                    options: quickOptions(),
                    on: Mechanism.epoll.loops
                ) { $0.slowStart = .zero }
                #expect(try await cluster.send(ask("a")).body == "a")
                file.replace("\(second.endpoint)\n")
                while await second.journal.requestCount == 0 { _ = try await cluster.send(ask("b")) }
                await cluster.close()
            }
        }
    }
}

extension WatchedFile.News {
    fileprivate static func list(_ servers: [ClusterEndpoint]) -> WatchedFile.News { .list(EndpointList(of: servers)) }
}

/// A file in the directory for temporary files, which is removed with its owner.
private final class TextFile: Sendable {
    let path = NSTemporaryDirectory() + "trunkline-\(UUID().uuidString)"

    deinit { remove() }

    /// Writes to the file itself.
    func write(_ text: String) {
        try? Data(text.utf8).write(to: URL(fileURLWithPath: path))
    }

    /// Writes another file and renames it.
    func replace(_ text: String) {
        try? Data(text.utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
    }

    func remove() { try? FileManager.default.removeItem(atPath: path) }
}
