import CTrunkline
import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLogging

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Links to child processes, over their standard input and output.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct ChildProcessTests {
    private let log = LogCollector()

    private func options(_ change: (inout ClientOptions) -> Void = { _ in }) -> ClientOptions {
        ClientOptions {
            $0.logging = log.logging()
            $0.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(20))
            $0.connecting.timeout = patience
            $0.handshake.timeout = patience
            $0.requests.timeout = patience + patience
            change(&$0)
        }
    }

    private func client(
        _ endpoint: Endpoint,
        _ mechanism: Mechanism = .epoll,
        _ change: (inout ClientOptions) -> Void = { _ in }
    ) -> Client {
        Client(to: endpoint, speaking: lineCodec, options: options(change), on: mechanism.loops)
    }

    /// Sends `text` and returns the response as text.
    private func ask(_ client: Client, _ text: Bytes = "x") async throws -> String {
        "\(String(decoding: Array(try await client.send(Request(body: text)).body), as: UTF8.self))"
    }

    // MARK: Requests

    @Test(arguments: Mechanism.allCases)
    func requestsAndResponsesOfAllSizes(_ mechanism: Mechanism) async throws {
        let client = self.client(.command("cat"), mechanism)
        for size in [1, 100, 65_536, 1 << 20] { try await expectEcho(filled(size), by: client) }
        try await withThrowingTaskGroup { group in
            for number in 0..<500 { group.addTask { try await expectEcho(Bytes("\(number)"), by: client) } }
            try await group.waitForAll()
        }
        let metrics = await client.metrics
        #expect(metrics.responses == 504 && metrics.connection.links == 1 && metrics.connection.tcp == nil)
        await client.close()
    }

    /// A process that works on one call at a time, and answers pings after it. It was ended `probeAfter` and `deadline` after
    /// the call began.
    @Test func aLongCallKeepsItsProcess() async throws {
        let script = #"while read line; do [ "$line" = ping ] && echo pong || { sleep 1; echo "$$ $line"; }; done"#
        let client = Client(
            to: shell(script),
            speaking: lineCodec.heartbeat(ping: "ping", pong: "pong"),
            options: options {
                $0.liveness.interval = .milliseconds(100)
                $0.liveness.probeAfter = .milliseconds(50)
                $0.liveness.deadline = .milliseconds(100)
            },
            on: Mechanism.epoll.loops
        )
        let first = try await ask(client)
        // The same process: it was not ended in between.
        #expect(try await ask(client) == first)
        #expect(await client.metrics.connection.pings > 0)
        await client.close()
    }

    @Test func theEnvironmentAndTheDirectory() async throws {
        let script = "read x; echo \"$PWD $VALUE ${HOME:+home}\"; cat"
        let endpoint = Endpoint.command(
            "sh",
            ["-c", script],
            environment: ["VALUE": "a=b", "PATH": "/bin:/usr/bin"],
            inheritsEnvironment: false,
            workingDirectory: "/"
        )
        let alone = self.client(endpoint)
        #expect(try await ask(alone) == "/ a=b ")
        await alone.close()
        unsafe setenv("CHILD_TEST_VARIABLE", "inherited", 1)
        let heir = client(shell("read x; echo $CHILD_TEST_VARIABLE $VALUE; cat", environment: ["VALUE": "set"]))
        #expect(try await ask(heir) == "inherited set")
        await heir.close()
        #expect(!log.text.contains("a=b"))
    }

    /// The child has three descriptors, no blocked or ignored signal, and a process group of its own.
    @Test func theChildInheritsNothingElse() async throws {
        let marker = fcntl(2, F_DUPFD, 300)  // without FD_CLOEXEC
        defer { close(marker) }
        let script = """
            read x
            set -- /proc/self/fd/*; fds="$*"
            while read -r name value; do case $name in SigBlk:|SigIgn:) signals="$signals $value";; esac; done </proc/$$/status
            read -r stat </proc/$$/stat
            set -- $stat
            echo "$fds|$signals|$1 $5"
            cat
            """
        let client = self.client(shell(script))
        let parts = try await ask(client).split(separator: "|").map(String.init)
        try #require(parts.count == 3)
        #expect(!parts[0].contains("\(marker)") && parts[0].split(separator: " ").count <= 4, "\(parts[0])")
        for mask in parts[1].split(separator: " ") {
            // The C library keeps the signals 32 and 33 for itself, and does not change their actions.
            let signals = try #require(UInt64(mask, radix: 16))
            #expect(signals & ~0x1_8000_0000 == 0, "\(parts[1])")
        }
        let numbers = parts[2].split(separator: " ")
        #expect(numbers[0] == numbers[1])
        await client.close()
    }

    // MARK: Exits

    @Test(arguments: Mechanism.allCases)
    func aCrashIsALostLinkAndTheNextAttemptStartsAnotherProcess(_ mechanism: Mechanism) async throws {
        let client = self.client(shell("read x; echo $$; read x; kill -9 $$"), mechanism)
        let reports = client.firstReport()
        let first = try await ask(client)
        let lost = client.start(Request(body: "crash"))
        let error = await failure(of: lost)
        #expect(error?.code == .connectionLost && error?.fate == .unknown)
        #expect((error?.cause as? TransportError)?.exit == .signal(9))
        let second = try await ask(client)
        #expect(first != second)
        let ended = await reports.value
        let report = try #require(ended)
        #expect(report.exit == .signal(9) && report.cause == .exited && report.endedBy == .server)
        #expect(report.phase == .ready && report.requestsLost == 1 && !report.isNetworkChange)
        await client.close()
        #expect(await eventually { log.record("link.lost")?.message.contains("signal 9 (SIGKILL)") == true })
    }

    @Test(arguments: [(3, false), (0, false), (3, true), (0, true)])
    func theExitStatusIsInTheReport(_ status: UInt8, _ isPolling: Bool) async throws {
        let client = self.client(shell("read x; exit \(status)"), isPolling ? .poll : .epoll)
        let reports = client.firstReport()
        let error = await failure(of: client.start(Request(body: "a")))
        #expect(error?.fate == .unknown && (error?.cause as? TransportError)?.exit == .status(status))
        #expect(await reports.value?.exit == .status(status))
        await client.close()
    }

    @Test func anExitInTheHandshake() async throws {
        let client = self.client(shell("read x; exit 5")) {
            $0.handshake.perform = { _ = try await $0.send(Request(body: "login")) }
            $0.reconnecting.maximumAttempts = 1
        }
        let reports = client.firstReport()
        let error = await failure { () throws(ClientError) in try await client.connect() }
        #expect(error?.code == .unavailable)
        let ended = await reports.value
        let report = try #require(ended)
        #expect(report.phase == .handshaking && report.exit == .status(5) && report.cause == .exited)
        await client.close()
    }

    /// What a process said about its end was in other lines, at the level `info`, two for each attempt without an end.
    @Test(arguments: Mechanism.allCases)
    func theWarningHasTheLastLineOfStandardError(_ mechanism: Mechanism) async throws {
        let script = "read x; echo \"$$: opening the store\" >&2; echo 'the store is locked' >&2; exit 3"
        let client = self.client(shell(script), mechanism) {
            $0.handshake.perform = { _ = try await $0.send(Request(body: "login")) }
            $0.reconnecting.maximumAttempts = 6
        }
        let reports = client.firstReport()
        _ = await failure { () throws(ClientError) in try await client.connect() }
        #expect(await reports.value?.lastOutput == "the store is locked")
        await client.close()
        #expect(await eventually { log.record("client.closed") != nil })
        let quote = "its last line of standard error: \"the store is locked\""
        #expect(log.record("attempt.failed")?.message.contains(quote) == true)
        let records = log.records
        #expect(records.count { $0.event == "process.output" } == 2)
        let summary = records.last { $0.event == "links.unstable" }
        #expect(summary?.message.contains("10 lines of standard error left out") == true, "\(records)")
        #expect(summary?.message.contains(quote) == true)
    }

    /// What was written before the exit is read.
    @Test(arguments: Mechanism.allCases)
    func theLastResponsesBeforeAnExitArrive(_ mechanism: Mechanism) async throws {
        let client = self.client(shell("read a; read b; echo one; printf two; exit 1"), mechanism)
        let (one, two) = (client.start(Request(body: "1")), client.start(Request(body: "2")))
        #expect(try await one.value.body == "one")
        let error = await failure(of: two)  // its line has no end
        #expect((error?.cause as? TransportError)?.exit == .status(1))
        await client.close()
    }

    @Test func aProgramThatDoesNotExist() async throws {
        for (executable, code) in [("/no/such/program", ENOENT), ("no-such-program-at-all", ENOENT), ("/tmp", EACCES)] {
            let client = self.client(.command(executable)) { $0.reconnecting.maximumAttempts = 2 }
            let error = await failure { () throws(ClientError) in try await client.connect() }
            let cause = error?.cause as? TransportError
            #expect(error?.code == .unavailable && cause?.code == .invalidAddress && cause?.errno == code)
            #expect(cause?.message.contains(executable) == true)
            #expect(await client.metrics.connection.attempts == 2)
            await client.close()
        }
        let lost = client(.command("cat", workingDirectory: "/no/such/directory")) {
            $0.reconnecting.maximumAttempts = 1
        }
        let error = await failure { () throws(ClientError) in try await lost.connect() }
        #expect("\(error as Any)".contains("working directory"))
        await lost.close()
    }

    @Test(arguments: [Endpoint.command(""), .command("a\0b"), .command("cat").secured()])
    func mistakesArePermanent(_ endpoint: Endpoint) async throws {
        let client = self.client(endpoint)
        let error = await failure { () throws(ClientError) in try await client.connect() }
        let cause = error?.cause as? TransportError
        #expect(error?.code == .unavailable && cause?.code == .invalidAddress && cause?.errno == 0)
        #expect(await client.metrics.connection.attempts == 1)
        await client.close()
    }

    /// A write to it must not end this process by SIGPIPE.
    @Test(arguments: Mechanism.allCases)
    func aChildThatClosesItsInputAndLives(_ mechanism: Mechanism) async throws {
        let client = self.client(shell("exec 0<&-; exec sleep 1000"), mechanism) {
            $0.liveness.maximumStalls = nil
        }
        try await client.connect()
        // The pipe takes requests until the child has closed its end.
        for _ in 0..<1000 {
            try await Task.sleep(for: .milliseconds(20))
            do throws(ClientError) {
                _ = try await client.send(Request(body: "a"), timeout: .after(.milliseconds(20)))
            } catch {
                #expect(error.code == .timedOut || error.code == .connectionLost)
            }
            if await client.metrics.connection.links > 1 { break }
        }
        #expect(await client.metrics.connection.disconnects[.reset, default: 0] > 0)
        await client.close()
    }

    @Test(arguments: Mechanism.allCases)
    func aChildThatClosesItsOutputAndLives(_ mechanism: Mechanism) async throws {
        let client = self.client(shell("read x; echo $$; exec 1>&-; exec sleep 1000"), mechanism)
        let reports = client.firstReport()
        let text = try await ask(client)
        let process = try #require(Int32(text))
        let ended = await reports.value
        let report = try #require(ended)
        #expect(report.cause == .closedByServer && report.exit == nil)
        await expectEnd(of: process)
        await client.close()
    }

    // MARK: Closing

    @Test(arguments: Mechanism.allCases)
    func closingEndsAChildThatIgnoresEverything(_ mechanism: Mechanism) async throws {
        let script = "trap '' TERM HUP INT; read x; echo $$; while :; do sleep 0.05; done"
        let client = self.client(shell(script), mechanism)
        let text = try await ask(client)
        let process = try #require(Int32(text))
        #expect(isAlive(process))
        // Other clients of the loop go on meanwhile.
        let other = self.client(.command("cat"), mechanism)
        let began = ContinuousClock.now
        async let closing: Void = client.close()
        for number in 0..<20 {
            try await expectEcho(Bytes("\(number)"), by: other)
            try await Task.sleep(for: .milliseconds(20))
        }
        await closing
        // It waits for at most 1 s after SIGKILL, which comes after 2 s.
        if began.duration(to: .now) < .seconds(3) { #expect(!isAlive(process)) }
        await expectEnd(of: process)
        await other.close()
    }

    /// Regression: signals went to the group that the child had begun with only. One that had joined another group got none,
    /// and outlived the client, whose `close()` took 3 s.
    @Test(arguments: Mechanism.allCases, [true, false])
    func aChildThatJoinsAnotherGroupEnds(_ mechanism: Mechanism, _ heedsSignals: Bool) async throws {
        // An interactive shell puts its jobs into groups of their own: one of them becomes the group of the server.
        let script = """
            import os, signal, sys
            helper = os.fork()
            if helper == 0:
                os.setpgid(0, 0)
                signal.pause()
            while os.getpgid(helper) != helper: pass
            os.setpgid(0, helper)
            \(heedsSignals ? "" : "signal.signal(signal.SIGTERM, signal.SIG_IGN)")
            sys.stdin.readline()
            print(os.getpid(), helper, os.getpgid(0), flush=True)
            while True: signal.pause()
            """
        let client = self.client(.command("python3", ["-c", script]), mechanism)
        let numbers = try await ask(client).split(separator: " ").compactMap { Int32($0) }
        try #require(numbers.count == 3)
        #expect(numbers[2] == numbers[1], "it has left its group")
        let transport = try #require(await client.connection.childTransport)
        await client.close()
        await expectEnd(of: numbers[0])
        // Not SIGKILL, which comes a second later.
        let exit = await client.connection.exit(of: transport)
        if heedsSignals { #expect(exit == ProcessExit.signal(UInt8(SIGTERM))) }
        // Nothing tells the client of its helper, which is in a group that is not the child's.
        _ = kill(numbers[1], SIGKILL)
    }

    @Test func closingLetsAChildFinish() async throws {
        let path = "/tmp/trunkline-child-\(getpid())-\(UInt32.random(in: .min ... .max))"
        defer { unsafe unlink(path) }
        let client = self.client(shell("read x; echo $$; cat >/dev/null; sleep 0.2; echo done >\(path)"))
        let text = try await ask(client)
        let process = try #require(Int32(text))
        let began = ContinuousClock.now
        await client.close()
        await expectEnd(of: process)
        // On a busy machine, it may have needed more than the second that it has.
        if began.duration(to: .now) < .seconds(1) { #expect(unsafe access(path, F_OK) == 0) }
    }

    @Test(arguments: ["close", "crash", "drop"])
    func theWholeGroupEnds(_ how: String) async throws {
        var client: Client? = self.client(shell("sleep 1000 & read x; echo $$ $!; read x; kill -11 $$"))
        let numbers = try await ask(try #require(client)).split(separator: " ").compactMap { Int32($0) }
        try #require(numbers.count == 2)
        #expect(numbers.allSatisfy { isAlive($0) })
        switch how {
        case "close": await client?.close()
        case "crash": _ = await failure(of: try #require(client).start(Request(body: "crash")))
        default: client = nil
        }
        for process in numbers { await expectEnd(of: process) }
        await client?.close()
    }

    /// Whenever the client is closed, its process has ended then.
    @Test(arguments: Mechanism.allCases)
    func closingWhileTheChildStarts(_ mechanism: Mechanism) async throws {
        let mark = "trunkline-\(getpid())-\(UInt32.random(in: .min ... .max))"
        for turn in 0..<30 {
            let client = self.client(shell("trap '' TERM; while read x; do :; done; sleep 0.05; : \(mark)"), mechanism)
            let handle = client.start(Request(body: "x"))
            if turn % 3 == 1 { await Task.yield() }
            if turn % 3 == 2 { try await Task.sleep(for: .microseconds(300 * turn)) }
            let began = ContinuousClock.now
            await client.closeNow()
            let wasQuick = began.duration(to: .now) < .seconds(1)
            func hasEnded() -> Bool { childrenOfThisProcess().allSatisfy { !commandLine(of: $0).contains(mark) } }
            // On a busy machine it gives up a second after SIGKILL.
            if wasQuick { #expect(hasEnded(), "\(turn)") } else { #expect(await eventually(hasEnded), "\(turn)") }
            _ = await failure(of: handle)
        }
    }

    /// A new process is started only after the old one was told to end.
    @Test(arguments: Mechanism.allCases)
    func aChildThatAnswersNoPingIsReplaced(_ mechanism: Mechanism) async throws {
        let codec = lineCodec.heartbeat(ping: "ping", pong: "pong")
        let script = "read x; echo $$; trap '' TERM; while :; do sleep 0.05; done"
        let options = options {
            // The first request must be answered before: a process needs a while to start on a busy machine.
            $0.liveness.interval = .seconds(2)
            $0.liveness.deadline = .seconds(1)
            $0.liveness.probeAfter = nil
            $0.requests.retry = .idempotent(tries: 10)
        }
        let client = Client(to: shell(script), speaking: codec, options: options, on: mechanism.loops)
        let reports = client.firstReport()
        let text = try await ask(client)
        let first = try #require(Int32(text))
        #expect(await reports.value?.cause == .halfOpen)
        await expectEnd(of: first)
        await client.close()
    }

    @Test(arguments: Mechanism.allCases)
    func aDroppedClientLeavesNoProcess(_ mechanism: Mechanism) async throws {
        var client: Client? = self.client(
            shell("trap '' TERM; read x; echo $$; while :; do sleep 0.05; done"),
            mechanism
        )
        let text = try await ask(try #require(client))
        let process = try #require(Int32(text))
        client = nil
        await expectEnd(of: process)
        #expect(await eventually { !childrenOfThisProcess().contains(process) })  // nor a zombie
    }

    // MARK: Standard error

    @Test(arguments: Mechanism.allCases)
    func standardErrorGoesToTheLog(_ mechanism: Mechanism) async throws {
        let client = self.client(shell("read x; echo 'no database' >&2; exit 4"), mechanism) {
            $0.reconnecting.policy = nil
        }
        _ = await failure(of: client.start(Request(body: "a")))
        await client.close()
        // On a busy machine `close` does not wait until the log is complete.
        _ = await eventually { log.record("link.lost") != nil }
        let record = try #require(log.record("process.output"))
        #expect(record.level == .info && record.message.hasSuffix("wrote to standard error: no database"))
        #expect(record.fields.contains { $0.name == "line" && $0.value == .text("no database") })
        let events = log.events
        let (line, loss) = (events.firstIndex(of: "process.output"), events.firstIndex(of: "link.lost"))
        let (first, second) = (try #require(line), try #require(loss))
        #expect(first < second)
        #expect(log.record("link.lost")?.message.contains("exit status 4") == true)
    }

    /// What a process says about its end is told, although its link is over.
    @Test(arguments: Mechanism.allCases, ["close", "closeNow"])
    func theLastWordsGoToTheLog(_ mechanism: Mechanism, _ how: String) async throws {
        let script =
            "trap 'echo terminated >&2; exit' TERM; read x; echo $x; cat >/dev/null; echo finished >&2; sleep 0.1"
        let client = self.client(shell(script), mechanism)
        try await expectEcho("x", by: client)
        let began = ContinuousClock.now
        if how == "close" { await client.close() } else { await client.closeNow() }
        // On a busy machine, SIGTERM and SIGKILL may come before the process has run.
        guard began.duration(to: .now) < .seconds(1) else { return }
        let messages = log.records.filter { $0.event == "process.output" }.map(\.message)
        // The order of SIGTERM and the end of its input is not known.
        let words = how == "close" ? ["finished"] : ["finished", "terminated"]
        #expect(messages.contains { message in words.contains { message.contains($0) } }, "\(messages)")
    }

    @Test func floodsOfStandardErrorAreBounded() async throws {
        let script = "read x; i=0; while [ $i -lt 5000 ]; do echo \"line $i\" >&2; i=$((i+1)); done; echo ok; cat"
        let client = self.client(shell(script))
        #expect(try await ask(client) == "ok")
        try await expectEcho("still here", by: client)
        await client.close()
        _ = await eventually { log.record("process.output") != nil }
        let lines = log.records.filter { $0.event == "process.output" }
        #expect((1...400).contains(lines.count))
    }
}

extension HeavyTests {
    @Suite(.timeLimit(.minutes(5)))
    struct ManyChildrenTests {
        @Test func aThousandChildrenLeaveNothingBehind() async throws {
            await aside {
                await #expect(processExitsWith: .success) {
                    try await Self.cycle(40)
                    #expect(await eventually { childrenOfThisProcess().isEmpty })
                    let before = Usage()
                    try await Self.cycle(1000)
                    // Those that were dropped or crashed end a little later.
                    #expect(await eventually { childrenOfThisProcess().isEmpty })
                    await before.expectNoLeak(ofKilobytes: 32_000)
                }
            }
        }

        private static func cycle(_ count: Int) async throws {
            try await withThrowingTaskGroup { group in
                for worker in 0..<4 {
                    group.addTask {
                        for number in 0..<count / 4 {
                            let loops = Mechanism.allCases[(worker + number) % 2].loops
                            let options = ClientOptions { $0.reconnecting.policy = nil }
                            switch number % 4 {
                            case 0, 1:
                                try await withClient(
                                    to: .command("/bin/cat"),
                                    speaking: lineCodec,
                                    options: options,
                                    on: loops
                                ) { try await expectEcho("a", by: $0) }
                            case 2:
                                let client = Client(
                                    to: shell("read x; kill -9 $$"),
                                    speaking: lineCodec,
                                    options: options,
                                    on: loops
                                )
                                let error = await failure(of: client.start(Request(body: "a")))
                                #expect((error?.cause as? TransportError)?.exit == .signal(9))
                                await client.close()
                            default:
                                let client = Client(
                                    to: .command("/bin/cat"),
                                    speaking: lineCodec,
                                    options: options,
                                    on: loops
                                )
                                if number % 8 == 3 {
                                    try await expectEcho("a", by: client)
                                } else {
                                    _ = client.start(Request(body: "a"))  // deallocated while it starts
                                }
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
    }
}

#if os(Linux)
    extension HeavyTests {
        @Suite(.timeLimit(.minutes(5)))
        struct OrphanTests {
            /// Regression: in a program that is process 1, or that adopts processes, the helpers in the group of a child became
            /// children of the program when they were killed, and nothing waited for them.
            @Test func helpersOfAChildLeaveNoZombie() async throws {
                await aside {
                    await #expect(processExitsWith: .success) {
                        #expect(trunkline_become_reaper() == 0)
                        for mechanism in Mechanism.allCases {
                            let client = Client(
                                to: shell("(sleep 1000 & sleep 1000) & sleep 1000 & read x; echo $$; cat >/dev/null"),
                                speaking: lineCodec,
                                options: ClientOptions { $0.requests.timeout = patience },
                                on: mechanism.loops
                            )
                            _ = try await client.send(Request(body: "x"))
                            // A child of the program itself, in a group of its own, which it has not waited for.
                            let own = spawn(ChildCommand("sh", ["-c", "exit 7"]), [])
                            #expect(own.code == 0)
                            await client.close()
                            #expect(await eventually { childrenOfThisProcess() == [own.process] })
                            #expect(await eventually { state(ofChild: own.process) == .ended })
                            #expect(reap(own.process) == .status(7))
                        }
                    }
                }
            }
        }
    }
#endif
