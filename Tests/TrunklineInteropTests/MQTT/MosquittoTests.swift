import Foundation
import Testing
import Trunkline

/// mosquitto, used as in the tutorial: handshake, subscriptions, both qualities of service, keep alive.
@Suite(
    .tags(.realThreads),
    .serialized,
    .timeLimit(.minutes(10)),
    .enabled(if: Broker.isAvailable, "mosquitto is not installed")
)
struct MosquittoTests {}

extension MosquittoTests {
    /// Options that reconnect quickly, and are patient with a broker on a busy machine.
    private func options(
        _ session: MQTT.Session,
        _ change: (inout ClientOptions) -> Void = { _ in }
    ) -> ClientOptions {
        ClientOptions { options in
            options.speakMQTT(as: session)
            options.connecting.timeout = .seconds(60)
            options.handshake.timeout = .seconds(60)
            options.reconnecting.policy = Backoff(base: .milliseconds(5), cap: .milliseconds(100))
            options.requests.timeout = .seconds(60)
            change(&options)
        }
    }

    private func client(
        _ id: String,
        of broker: Broker,
        isClean: Bool = true,
        _ change: (inout ClientOptions) -> Void = { _ in }
    ) -> Client {
        client(MQTT.Session(clientID: id, isClean: isClean), of: broker, change)
    }

    private func client(
        _ session: MQTT.Session,
        of broker: Broker,
        _ change: (inout ClientOptions) -> Void = { _ in }
    ) -> Client {
        Client(to: broker.endpoint, speaking: MQTTCodec(), options: options(session, change))
    }

    /// The next report about the end of a ready link.
    private func nextEnd(_ reports: AsyncStream<DisconnectReport>) async -> DisconnectReport? {
        await reports.first { $0.phase == .ready }
    }

    /// The next message of `pushes`.
    private func next(_ pushes: inout PushStream.AsyncIterator) async -> MQTT.Message? {
        while let push = await pushes.next() {
            if case .message(let frame) = push { return MQTT.Message(frame) }
        }
        return nil
    }

    // MARK: Messages

    @Test func bothQualitiesOfServiceWorkBothWays() async throws {
        let broker = try await Broker()
        let client = client("both", of: broker)
        var pushes = client.pushes().makeAsyncIterator()
        _ = try await client.subscribe(.subscribe(to: "exact/#"))
        _ = try await client.subscribe(.subscribe(to: "loose/+", acknowledged: false))
        for topic in ["exact/a/b", "loose/a"] {
            for isAcknowledged in [true, false] {
                let message = MQTT.Message(topic: topic, payload: "Grüße", isAcknowledged: isAcknowledged)
                if isAcknowledged {
                    let answer = try await client.send(.publish(message))
                    #expect(answer.type == MQTT.Packet.puback.rawValue)
                } else {
                    try await client.post(.publish(message))
                }
                guard case .message(let push)? = await pushes.next() else {
                    Issue.record("no push")
                    return
                }
                try await client.acknowledge(push)
                // The lower of the qualities that the publisher and the subscriber requested.
                var expected = message
                expected.isAcknowledged = isAcknowledged && topic != "loose/a"
                #expect(MQTT.Message(push) == expected)
            }
        }
        _ = try await client.send(.unsubscribe(from: "exact/#"))
        _ = try await client.send(.publish(MQTT.Message(topic: "exact/a", payload: "unheard")))
        _ = try await client.send(.publish(MQTT.Message(topic: "loose/a", payload: "heard")))
        #expect(await next(&pushes)?.payload == "heard")
        await client.close()
        #expect(await client.metrics.unknownResponses == 0)
    }

    @Test func eachOfAThousandMessagesGetsItsOwnResponse() async throws {
        let broker = try await Broker()
        let client = client("many", of: broker)
        let results = await client.send(all: (0..<1000).map { .publish(MQTT.Message(topic: "t", payload: "\($0)")) })
        #expect(results.allSatisfy { if case .success = $0 { true } else { false } })
        await client.close()
        let metrics = await client.metrics
        #expect(metrics.responses == 1000 && metrics.unknownResponses == 0 && metrics.heldSerials == 0)
    }

    /// A broker with a limit on the size of packets closes the connection. The codec refuses the message before
    /// anything is written.
    @Test func aMessageThatIsTooLongIsTheCallersError() async throws {
        let broker = try await Broker()
        let client = client("long", of: broker)
        let message = MQTT.Message(topic: "t", payload: Bytes([UInt8](repeating: 0, count: 2 << 20)))
        let error = await #expect(throws: ClientError.self) { try await client.send(.publish(message)) }
        #expect(error?.code == .invalidRequest && error?.fate == .notSent)
        let loose = await #expect(throws: ClientError.self) {
            try await client.send(.publish(MQTT.Message(topic: "t", payload: "", isAcknowledged: false)))
        }
        #expect(loose?.code == .invalidRequest)
        await client.close()
    }

    // MARK: Links

    /// Ends a link: another client connects with the same ID, and the broker prefers it.
    private func killLink(of id: String, isClean: Bool = true, at broker: Broker) async throws {
        var options = options(MQTT.Session(clientID: id, isClean: isClean))
        // The first client reconnects with its ID. This one must not do the same, which would end a link that is
        // already counted.
        options.reconnecting.policy = nil
        try await withClient(to: broker.endpoint, speaking: MQTTCodec(), options: options) { client in
            do throws(ClientError) { try await client.connect() } catch {
                // The first client may reconnect so fast that this one never becomes ready.
                guard error.code == .unavailable else { throw error }
            }
        }
    }

    @Test func subscriptionsAreRestoredOnANewLink() async throws {
        let broker = try await Broker()
        let (subscriber, publisher) = (client("subscriber", of: broker), client("publisher", of: broker))
        var pushes = subscriber.pushes().makeAsyncIterator()
        _ = try await subscriber.subscribe(.subscribe(to: "news"))
        for round in 1...3 {
            try await killLink(of: "subscriber", at: broker)
            while await subscriber.metrics.connection.links <= round { try await Task.sleep(for: .milliseconds(1)) }
            let message = MQTT.Message(topic: "news", payload: "\(round)")
            _ = try await publisher.send(.publish(message))
            #expect(await next(&pushes) == message)
        }
        await subscriber.close()
        await publisher.close()
    }

    /// The link on which the message arrived has ended, so it cannot be acknowledged, and the broker sends it again.
    @Test func anAcknowledgementIsNeverSentOnAnotherLink() async throws {
        let broker = try await Broker()
        let (subscriber, publisher) = (
            client("subscriber", of: broker, isClean: false), client("publisher", of: broker)
        )
        var pushes = subscriber.pushes().makeAsyncIterator()
        _ = try await subscriber.subscribe(.subscribe(to: "news"))
        _ = try await publisher.send(.publish(MQTT.Message(topic: "news", payload: "1")))
        guard case .message(let first)? = await pushes.next() else {
            Issue.record("no push")
            return
        }
        await subscriber.suspend()
        await subscriber.resume()
        try await subscriber.connect()
        let error = await #expect(throws: ClientError.self) { try await subscriber.acknowledge(first) }
        #expect(error?.code == .connectionLost && error?.fate == .notSent)
        guard case .reconnected? = await pushes.next(), case .message(let again)? = await pushes.next() else {
            Issue.record("the message was not sent again")
            return
        }
        #expect(MQTT.Message(again) == MQTT.Message(first))
        #expect(try #require(again.session) > #require(first.session))
        #expect(again.type & 8 == 8)  // the broker marks it as a repetition
        try await subscriber.acknowledge(again)
        await subscriber.close()
        await publisher.close()
    }

    @Test func theWillIsPublishedUnlessTheClientClosesCleanly() async throws {
        let broker = try await Broker()
        let watcher = client("watcher", of: broker)
        var pushes = watcher.pushes().makeAsyncIterator()
        _ = try await watcher.subscribe(.subscribe(to: "wills"))
        for (id, closesCleanly) in [("one", true), ("two", false), ("three", true), ("four", false)] {
            var session = MQTT.Session(clientID: id)
            session.will = MQTT.Message(topic: "wills", payload: Bytes(id))
            let client = client(session, of: broker)
            try await client.connect()
            if closesCleanly { await client.close() } else { await client.closeNow() }
        }
        #expect(await next(&pushes)?.payload == "two")
        #expect(await next(&pushes)?.payload == "four")
        await watcher.close()
    }

    // MARK: Liveness

    @Test func pingsKeepAnIdleLinkOpen() async throws {
        let broker = try await Broker()
        // The broker allows an idle client six seconds. This one pings every 400 ms, for longer than that.
        let client = client(MQTT.Session(clientID: "idle", keepAlive: 4), of: broker) {
            $0.liveness.speakAfter = .milliseconds(400)
        }
        try await client.connect()
        while await client.metrics.connection.pings < 17 { try await Task.sleep(for: .milliseconds(200)) }
        let metrics = await client.metrics
        #expect(metrics.connection.links == 1 && metrics.connection.disconnects.isEmpty)
        #expect(await client.diagnostics.roundTripTime != nil)
        await client.close()
    }

    /// The control: this broker does close links on which it hears nothing.
    @Test func withoutPingsTheBrokerClosesTheLink() async throws {
        let broker = try await Broker()
        let client = client(MQTT.Session(clientID: "mute", keepAlive: 1), of: broker) {
            $0.liveness.heartbeat = .none
        }
        let reports = client.disconnects
        try await client.connect()
        #expect(await nextEnd(reports)?.cause == .closedByServer)
        await client.closeNow()
    }

    @Test func theHeartbeatDetectsABrokerThatHangs() async throws {
        let broker = try await Broker()
        let client = client("watchful", of: broker) {
            $0.liveness.interval = .milliseconds(200)
            $0.liveness.deadline = .milliseconds(500)
        }
        let reports = client.disconnects
        try await client.connect()
        broker.server.pause()
        #expect(await nextEnd(reports)?.cause == .halfOpen)
        broker.server.resume()
        // On a busy machine the broker may seem to hang again.
        let again = CallOptions(retry: .idempotent(tries: 20))
        _ = try await client.send(.publish(MQTT.Message(topic: "t", payload: "back")), options: again)
        await client.close()
    }

    @Test func aRestartedBrokerDeliversTheMessagesItHeld() async throws {
        let broker = try await Broker("persistence true", "autosave_on_changes true", "autosave_interval 1")
        let publisher = client("publisher", of: broker)
        let subscriber = client("subscriber", of: broker, isClean: false)
        _ = try await subscriber.subscribe(.subscribe(to: "news"))
        await subscriber.close()
        let messages = (0..<100).map { MQTT.Message(topic: "news", payload: "message \($0);") }
        for result in await publisher.send(all: messages.map { .publish($0) }) { _ = try result.get() }
        while !broker.hasSaved("message 99;") { try await Task.sleep(for: .milliseconds(10)) }
        await broker.server.kill()
        // A message published meanwhile waits for the broker.
        let late = publisher.start(.publish(MQTT.Message(topic: "news", payload: "late")))
        try await broker.server.start()
        _ = try await late.value

        let heir = client("subscriber", of: broker, isClean: false)
        let pushes = heir.pushes(buffering: PushBuffering(overflow: .suspendReading))
        var received: [Bytes] = []
        for await push in pushes.messages {
            received.append(MQTT.Message(push).payload)
            try await heir.acknowledge(push)
            if received.last == "late" { break }
        }
        #expect(received == messages.map(\.payload) + ["late"])
        await heir.close()
        await publisher.close()
    }

    @Test func aWrongPasswordIsAPermanentFailure() async throws {
        let broker = try await Broker(user: ("anna", "secret"))
        for (password, isWelcome) in [("secret", true), ("wrong", false)] {
            let client = client(MQTT.Session(clientID: "c", login: ("anna", password)), of: broker)
            if isWelcome {
                try await client.connect()
            } else {
                let error = await #expect(throws: ClientError.self) { try await client.connect() }
                #expect(error?.code == .unavailable)
                #expect((error?.cause as? HandshakeRefusal)?.isPermanent == true)
                let metrics = await client.metrics.connection
                #expect(metrics.attempts == 1, "\(metrics)")
            }
            await client.close()
        }
    }

    // MARK: Many messages

    /// Without a loss, although both links are killed meanwhile. A message may arrive twice, but the first copies
    /// arrive in order.
    @Test func everyMessageArrivesAtLeastOnce() async throws {
        let count = TestEnvironment.scaled(50_000)
        let broker = try await Broker("max_inflight_messages 1000", "max_queued_messages 0")
        let publisher = client("publisher", of: broker)
        let subscriber = client("subscriber", of: broker, isClean: false)
        let pushes = subscriber.pushes(buffering: PushBuffering(overflow: .suspendReading))
        _ = try await subscriber.subscribe(.subscribe(to: "numbers"))

        async let published: Void = publish(count, by: publisher, publisher.disconnects)
        // On the client's own executor, an acknowledgement for each message needs no change of threads.
        let (repeated, acknowledged) = try await withTaskExecutorPreference(subscriber.executor) {
            try await consume(count, from: pushes, of: subscriber, at: broker)
        }
        try await published
        let links = await (publisher.metrics.connection.links, subscriber.metrics.connection.links)
        print("MQTT: \(count) messages, \(repeated) twice, \(acknowledged) acknowledged, \(links) links")
        #expect(links.0 > 1 && links.1 > 1)
        await publisher.close()
        await subscriber.close()
    }

    /// Receives the numbers below `count` in order, and ends each link once. Returns how many numbers arrived twice,
    /// and how many messages were acknowledged.
    private func consume(
        _ count: Int,
        from pushes: PushStream,
        of subscriber: Client,
        at broker: Broker
    ) async throws -> (repeated: Int, acknowledged: Int) {
        var (highest, repeated, acknowledged) = (-1, 0, 0)
        for await push in pushes.messages {
            let number = Int(String(MQTT.Message(push).payload)) ?? -1
            let isNew = number > highest
            if isNew { #expect(number == highest + 1) } else { repeated += 1 }
            highest = max(highest, number)
            do {
                try await subscriber.acknowledge(push)
                acknowledged += 1
            } catch {
                #expect(error.code == .connectionLost && error.fate == .notSent)  // the broker sends it again
            }
            if isNew, number == count / 5 { try await killLink(of: "publisher", at: broker) }
            if isNew, number == count * 3 / 5 { try await killLink(of: "subscriber", isClean: false, at: broker) }
            if highest == count - 1 { break }
        }
        #expect(highest == count - 1)
        return (repeated, acknowledged)
    }

    /// Publishes the numbers below `count`, in order. After a link is lost, continues with the first number that was
    /// not acknowledged. With `retry: .never`, no later number overtakes it on the next link.
    ///
    /// The second half is published after the link of the first half was killed, because the publisher may be far ahead
    /// of the consumer.
    private func publish(_ count: Int, by client: Client, _ reports: AsyncStream<DisconnectReport>) async throws {
        var next = 0
        var wasKilled = false
        while next < count {
            if next >= count / 2, !wasKilled {
                _ = await nextEnd(reports)
                wasKilled = true
            }
            let batch = next..<min(next + 500, count)
            let requests = batch.map { Request.publish(MQTT.Message(topic: "numbers", payload: "\($0)")) }
            for result in await client.send(all: requests, options: CallOptions(retry: .never)) {
                guard case .success = result else { break }
                next += 1
            }
        }
    }

    @Test func aSlowConsumerThatSuspendsReadingLosesNothing() async throws {
        let count = 3000
        let broker = try await Broker("max_inflight_messages 1000", "max_queued_messages 0")
        let (publisher, subscriber) = (client("publisher", of: broker), client("subscriber", of: broker))
        let buffering = PushBuffering(maximumCount: 16, overflow: .suspendReading)
        let pushes = subscriber.pushes(buffering: buffering)
        _ = try await subscriber.subscribe(.subscribe(to: "numbers"))
        let filler = String(repeating: ".", count: 2000)
        async let published = publisher.send(
            all: (0..<count).map { .publish(MQTT.Message(topic: "numbers", payload: "\($0)\(filler)")) }
        )
        var received = 0
        for await push in pushes {
            guard case .message(let frame) = push else {
                Issue.record("\(push)")
                continue
            }
            #expect(String(MQTT.Message(frame).payload.prefix { $0 != UInt8(ascii: ".") }) == "\(received)")
            received += 1
            if received % 100 == 0 { try await Task.sleep(for: .milliseconds(10)) }
            try await subscriber.acknowledge(frame)
            if received == count { break }
        }
        #expect(await published.allSatisfy { if case .success = $0 { true } else { false } })
        #expect(await subscriber.metrics.connection.links == 1)
        await publisher.close()
        await subscriber.close()
    }
}

extension String {
    fileprivate init(_ bytes: some Collection<UInt8>) { self.init(decoding: bytes, as: UTF8.self) }
}
