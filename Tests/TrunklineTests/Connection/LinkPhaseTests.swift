import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// The phases of links, and the places of links in their connection.
@Suite struct LinkPhaseTests {}

extension LinkPhaseTests {
    private func at(_ seconds: Int64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }

    private func link(_ session: SessionID) -> Link {
        let attempt = ReconnectMachine.Attempt(id: session, number: 1, endpoint: "10.0.0.1:7000")
        let path = LinkPath(local: nil, remote: nil, .unknown, fresh: .unknown)
        let handshake = HandshakeUse(deadline: .distantFuture, .handshake(.seconds(1)))
        return Link(
            attempt,
            NoTransport(id: session.number + 100),
            ProtocolCodec(FrameLayout.standard),
            handshake,
            number: Int(session.number),
            path: path,
            quarantine: .seconds(1),
            maximumDatagramSize: 1_232,
            randomBits: { 0 },
            at: at(0)
        )
    }

    private func draining() -> Link.Draining { Link.Draining(until: at(9), .goAway, nil) }

    /// Everything that is known about where `link` is.
    private func places(of link: Link, in links: Links) -> String {
        var places: [String] = []
        if links.handshaking === link { places.append("handshaking") }
        if links.ready === link { places.append("ready") }
        if links.draining.contains(where: { $0 === link }) { places.append("draining") }
        let isThere = links[link.session] === link && links.link(ofTransport: link.session.number + 100) === link
        #expect(isThere == !places.isEmpty && links.all.contains { $0 === link } == isThere)
        #expect(link.isInHandshake == (link.handshake != nil) && link.isDraining == (link.draining != nil))
        switch link.phase {
        case .handshaking: places.append("in its handshake")
        case .ready: places.append("ready")
        case .draining: places.append("draining")
        case .closed: places.append("closed")
        }
        return places.joined(separator: ", ")
    }

    @Test func aLinkPassesItsPhasesInOrder() {
        let links = Links(maximumInFlight: 8)
        let first = link(1)
        #expect(links.isEmpty && links[1] == nil)
        links.begin(first)
        #expect(places(of: first, in: links) == "handshaking, in its handshake" && first.readySince == nil)
        links.becomeReady(first, Liveness.Policy(), at: at(3))
        #expect(places(of: first, in: links) == "ready, ready" && first.readySince == at(3))
        #expect(links.onlyReady === first)
        _ = first.state.machine.send(7, Frame(.request, type: 1), expectsResponse: true)
        #expect(links.drain(first, draining()).map(\.id) == [7])
        #expect(places(of: first, in: links) == "draining, draining" && first.readySince == at(3))
        #expect(links.onlyReady == nil && first.draining?.nextLook == at(9))
        links.remove(first)
        _ = first.close()
        #expect(places(of: first, in: links) == "closed" && links.isEmpty)
    }

    /// A limit that protects the server counts what is in flight on links that drain.
    @Test func theRoomOfTheReadyLinkIsWhatAllLinksLeave() {
        let links = Links(maximumInFlight: 8)
        #expect(links.room == 0 && links.maximumInFlight == 8 && links.isStrict)
        let (first, second) = (link(1), link(2))
        links.begin(first)
        links.becomeReady(first, Liveness.Policy(), at: at(1))
        first.maximumInFlight = 8
        for id in 1...3 {
            _ = first.state.machine.send(RequestID(UInt64(id)), Frame(.request, type: 1), expectsResponse: true)
        }
        #expect(links.room == 5 && links.requestCount == 3 && !links.isAtMaximum)
        var (codec, reported) = (first.state.codec, [RequestID]())
        _ = first.state.machine.encode(using: &codec.base)
        let count = first.state.machine.outbound.unwrittenCount
        _ = first.state.machine.didWrite(count, reporting: &reported)
        #expect(links.drain(first, draining()).isEmpty)
        links.begin(second)
        links.becomeReady(second, Liveness.Policy(), at: at(2))
        second.maximumInFlight = 4
        #expect(links.room == 1 && links.requestCount == 3)
        links.remove(first)
        #expect(links.room == 4 && links.requestCount == 0)
    }

    @Test(arguments: [false, true])
    func aSubscriptionIsRestoredByLinksThatDoNotKnowIt(isMember: Bool) throws {
        let (links, memory) = (Links(maximumInFlight: 8), LinkMemory(["a:1"], isMember: isMember))
        #expect(memory.firstLinkToBeTold(links) == 1)
        let number = try #require(memory.rememberIfNotReady(Request(type: 7), true, links))
        #expect(memory.subscriptions[number]?.request.type == 7)
        let first = link(1)
        links.begin(first)
        // A link in its handshake has sent it already.
        first.handshake?.restoredThrough = number
        memory.forget(number, links)
        #expect(memory.subscriptions.isEmpty && first.handshake?.hasRestoredTooMuch == isMember)
        links.becomeReady(first, Liveness.Policy(), at: at(1))
        #expect(memory.rememberIfNotReady(Request(type: 8), true, links) == nil && memory.subscriptions.isEmpty)
        #expect(memory.firstLinkToBeTold(links) == 1)
        let later = memory.remember(Request(type: 9), true)
        #expect(!memory.forgetIfNotReady(later, links) && memory.subscriptions[later] != nil)
        let second = link(2)
        links.begin(second)
        second.handshake?.restoredThrough = later
        memory.forget(later, links)
        #expect(second.handshake?.hasRestoredTooMuch == true && memory.subscriptions.isEmpty)
    }

    @Test func aPlannedChangeReplacesTheReadyLink() {
        let links = Links(maximumInFlight: 8)
        let all = ([1, 2, 3, 4] as [SessionID]).map { link($0) }
        for link in all.dropLast() {
            links.begin(link)
            #expect(places(of: link, in: links) == "handshaking, in its handshake")
            if let ready = links.ready { _ = links.drain(ready, draining()) }
            links.becomeReady(link, Liveness.Policy(), at: at(1))
        }
        links.begin(all[3])
        #expect(links.all.map(\.session) == [1, 2, 3, 4] && links.draining.map(\.session) == [1, 2])
        #expect(links.count == 4 && links.ready === all[2] && links.handshaking === all[3])
        // The oldest, the ready one, and the one in its handshake end.
        for index in [0, 2, 3] {
            links.remove(all[index])
            links.remove(all[index])
            #expect(places(of: all[index], in: links) != "" && links[all[index].session] == nil)
        }
        #expect(links.all.map(\.session) == [2] && places(of: all[1], in: links) == "draining, draining")
    }

    /// Each phase is entered from the one before it.
    @Test func aPhaseIsNotEnteredFromAnotherOne() async {
        await aside {
            await #expect(processExitsWith: .failure) {
                let link = LinkPhaseTests().link(1)
                _ = link.drain(LinkPhaseTests().draining())
            }
            await #expect(processExitsWith: .failure) {
                let link = LinkPhaseTests().link(1)
                link.becomeReady(Liveness.Policy(), at: .distantPast)
                link.becomeReady(Liveness.Policy(), at: .distantPast)
            }
            await #expect(processExitsWith: .failure) {
                let links = Links(maximumInFlight: 8)
                links.begin(LinkPhaseTests().link(1))
                links.begin(LinkPhaseTests().link(2))
            }
            await #expect(processExitsWith: .failure) {
                let links = Links(maximumInFlight: 8)
                for session in [1, 2] as [SessionID] {
                    let link = LinkPhaseTests().link(session)
                    links.begin(link)
                    links.becomeReady(link, Liveness.Policy(), at: .distantPast)
                }
            }
        }
    }

    /// A codec, which a link calls while it changes its state, might use the client that it serves.
    @Test func theStateOfALinkIsNotUsedWhileItChanges() async {
        let link = link(1)
        func fail(_ state: inout Link.State) throws { throw CancellationError() }
        #expect(throws: CancellationError.self) { try fail(&link.state) }
        link.state.holdsFrames = true
        #expect(link.state.machine.count + link.state.machine.count == 0, "an access ends also with an error")
        await aside {
            await #expect(processExitsWith: .failure) {
                let link = LinkPhaseTests().link(1)
                func read(_ state: inout Link.State) { state.holdsFrames = link.state.machine.count == 0 }
                read(&link.state)
            }
            await #expect(processExitsWith: .failure) {
                let link = LinkPhaseTests().link(1)
                func change(_ state: inout Link.State) { link.state.holdsFrames = true }
                change(&link.state)
            }
        }
    }
}

/// A transport on which nothing happens.
private final class NoTransport: Transport {
    let id: UInt64
    var handler: (any TransportHandler)?
    var (isReading, awaitsWritable) = (false, false)
    var hasFailed: Bool { false }

    init(id: UInt64) { self.id = id }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome { .wouldBlock }
    func write(_ pieces: BytePieces) -> WriteOutcome { .wouldBlock }
    func finishWriting() {}
    func close() {}
    func reset() {}
}
