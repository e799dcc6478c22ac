import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// Random operations on a link, compared with the list of the frames to be written.
@Suite struct LinkMachinePropertyTests {}

extension LinkMachinePropertyTests {
    private struct Sent {
        /// `nil` for a frame of the link itself.
        let id: RequestID?, size: Int
        var written = 0
        let isMessage: Bool
    }

    @Test(arguments: [ResponseMatching.serial(1...40), .inOrder])
    func everyRequestEndsExactlyOnceAndWithItsFate(_ matching: ResponseMatching) throws {
        for seed in seeds(300) {
            var generator = SeededGenerator(seed: seed)
            var link = TestedLink(matching)
            var (id, clock, isDraining) = (0 as RequestID, at(0), false)
            /// The frames in order, until they are written. A removed request's frame stays if it has started.
            var queue: [Sent] = []
            var started: Set<RequestID> = []
            var alive: Set<RequestID> = []
            var left: Set<RequestID> = []
            /// By serial; 0 for an abandoned request.
            var numbers: [SerialNumber: RequestID] = [:]
            func leave(_ id: RequestID, hasStarted: Bool, _ how: String) {
                #expect(left.insert(id).inserted, "seed \(seed): \(id) left twice, by \(how)")
                #expect(started.contains(id) == hasStarted, "seed \(seed): \(id) left by \(how)")
                alive.remove(id)
                if !hasStarted { queue.removeAll { $0.id == id } }
                for (number, other) in numbers where other == id { numbers[number] = nil }
            }
            func write(_ count: Int) {
                var rest = count
                while rest > 0, !queue.isEmpty {
                    let taken = min(rest, queue[0].size - queue[0].written)
                    queue[0].written += taken
                    rest -= taken
                    if let id = queue[0].id { started.insert(id) }
                    if queue[0].written == queue[0].size { queue.removeFirst() }
                }
                #expect(rest == 0, "seed \(seed): more bytes were written than queued")
            }
            for _ in 0..<200 {
                clock = clock.advanced(by: .milliseconds(Int.random(in: 0...2000, using: &generator)))
                switch Int.random(in: 0..<12, using: &generator) {
                case 0...3:
                    guard !isDraining else { continue }
                    id += 1
                    let isBad = Int.random(in: 0..<15, using: &generator) == 0
                    let isMessage = Int.random(in: 0..<4, using: &generator) == 0
                    let size = Int.random(in: 1...12, using: &generator)
                    let body = [UInt8](repeating: isBad ? 0x21 : 0x61, count: size)
                    guard let place = link.send(id, Bytes(body), isMessage: isMessage) else {
                        #expect(numbers.count == 40 && !isMessage, "seed \(seed)")
                        left.insert(id)
                        continue
                    }
                    if case .response(let number) = place {
                        #expect(numbers.updateValue(id, forKey: number) == nil, "seed \(seed)")
                    }
                    alive.insert(id)
                    queue.append(Sent(id: id, size: size, isMessage: isMessage))
                case 4:
                    link.machine.send(Frame(.cancel, body: "cancel"))
                    queue.append(Sent(id: nil, size: 6, isMessage: true))
                case 5...7:
                    let known = link.refused.count
                    let reportedBefore = link.reported.count
                    let count = link.writeOnce(upTo: .random(in: 0...30, using: &generator)).count
                    for refusal in link.refused[known...] {
                        let hasLeft = link.machine.refused(refusal)
                        #expect(hasLeft, "seed \(seed)")
                        leave(try #require(refusal.item.id), hasStarted: false, "refused")
                    }
                    write(count)
                    for id in link.reported[reportedBefore...] where link.machine.written(id) != nil {
                        leave(id, hasStarted: true, "written")
                    }
                case 8, 9:
                    let serial = numbers.keys.randomElement(using: &generator) ?? 99
                    let number = matching == .inOrder ? numbers.keys.min() ?? 0 : serial
                    let isPart = Bool.random(using: &generator)
                    let text = isPart ? link.machine.match(serial, at: clock).text : link.answer(serial)
                    switch numbers[number] {
                    case nil: #expect(text == "unknown", "seed \(seed)")
                    case 0?:
                        #expect(text == "late", "seed \(seed)")
                        if !isPart { numbers[number] = nil }
                    case let id? where started.contains(id):
                        #expect(text == "\(id)", "seed \(seed)")
                        if !isPart { leave(id, hasStarted: true, "answer") }
                    default: #expect(text == "unknown", "seed \(seed)")
                    }
                case 10:
                    let victim = (0...id + 1).randomElement(using: &generator) ?? id
                    let number = link.serial(victim)
                    let text = link.cancel(victim, isTimeout: .random(using: &generator), at: clock)
                    guard alive.contains(victim) else {
                        #expect(text == "none" || text == "never sent", "seed \(seed)")
                        continue
                    }
                    leave(victim, hasStarted: !text.hasPrefix("not sent"), text)
                    if text.hasPrefix("awaited") { numbers[number] = 0 }
                default:
                    if Int.random(in: 0..<15, using: &generator) == 0 {
                        let drained = link.machine.drain().map(\.id)
                        isDraining = true
                        let expected = queue.filter { $0.written == 0 }.compactMap(\.id)
                        #expect(drained == expected, "seed \(seed)")
                        for id in drained { leave(id, hasStarted: false, "drain") }
                    }
                    _ = link.machine.judge(counts: true, maximumStalls: 3)
                }
                #expect(Set(link.machine.ids) == alive, "seed \(seed)")
                #expect(link.machine.count == alive.count, "seed \(seed)")
                #expect(link.machine.outbound.isEmpty == queue.isEmpty, "seed \(seed)")
                #expect(link.machine.requests.heldCount == numbers.count, "seed \(seed)")
                #expect(link.machine.requests.abandonedCount == numbers.values.count { $0 == 0 }, "seed \(seed)")
            }
            let unsent = queue.filter { $0.written == 0 }.compactMap(\.id)
            let remains = link.machine.close()
            #expect(remains.unsent.map(\.id) == unsent, "seed \(seed)")
            for request in remains.unsent { leave(request.id, hasStarted: false, "close") }
            #expect(remains.lost.map(\.id) == alive.sorted(), "seed \(seed)")
            for (id, _) in remains.lost { leave(id, hasStarted: true, "close") }
            #expect(left.count == Int(id.number) && link.machine.count == 0, "seed \(seed)")
        }
    }
}
