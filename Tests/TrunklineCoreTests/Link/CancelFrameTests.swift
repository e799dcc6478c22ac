import Testing

@testable import TrunklineCore

/// Cancel frames and the serials that they free, with a server that reads and answers when it likes.
@Suite struct CancelFrameTests {}

extension CancelFrameTests {
    /// A server that has read a prefix of what the client has sent. Its answers arrive in their order, later.
    private struct Server {
        enum Sent {
            case request(RequestID, SerialNumber)
            case cancel(CancelKind, RequestID, of: SerialNumber, own: SerialNumber?)
        }

        struct Answer {
            let serial: SerialNumber
            /// `nil` for the answer to a cancel frame.
            let request: RequestID?
        }

        var unread: [Sent] = []
        var working: [(id: RequestID, serial: SerialNumber)] = []
        var answers: [Answer] = []

        mutating func readNext() {
            guard !unread.isEmpty else { return }
            switch unread.removeFirst() {
            case .request(let id, let serial): working.append((id, serial))
            case .cancel(let kind, let id, let serial, let own):
                let place = working.firstIndex { $0.id == id }
                switch kind {
                case .answered: break  // is answered when its turn comes
                case .unanswered, .unansweredRequest: place.map { _ = working.remove(at: $0) }
                case .answeredRequest: answers.append(Answer(serial: own ?? serial, request: nil))
                case .flush:
                    place.map { _ = working.remove(at: $0) }
                    answers.append(Answer(serial: own ?? serial, request: nil))
                @unknown default: break
                }
            }
        }

        mutating func answerOne(by random: inout SeededGenerator) {
            guard let place = working.indices.randomElement(using: &random) else { return }
            let (id, serial) = working.remove(at: place)
            answers.append(Answer(serial: serial, request: id))
        }
    }

    @Test(arguments: [CancelKind.answered, .unanswered, .unansweredRequest, .answeredRequest, .flush])
    func noAnswerReachesAnotherRequest(_ kind: CancelKind) {
        for seed in seeds(500) {
            var random = SeededGenerator(seed: seed)
            // Without an answer, a number is used again when no other is left. A round through this many numbers takes
            // longer than any frame is under way.
            let isUnanswered = kind == .unanswered || kind == .unansweredRequest
            let count: SerialNumber = isUnanswered || seed % 2 == 0 ? 60 : 12
            var table = InFlightTable(matching: .serial(5...(4 + count)))
            var server = Server()
            var (last, position) = (UInt64(0), OutboundPosition.first)
            var (inFlight, cancelled): ([RequestID: SerialNumber], Set<RequestID>) = ([:], [])
            func receive() {
                guard !server.answers.isEmpty else { return }
                let answer = server.answers.removeFirst()
                let taken = table.takeAnswered(answer.serial, before: position)
                switch (taken, answer.request) {
                case (.request(let id, _), let request?):
                    #expect(id == request && inFlight.removeValue(forKey: id) == answer.serial, "seed \(seed)")
                case (.late(let id, let type), let request?):
                    #expect(id == request && type == 3 && cancelled.contains(id), "seed \(seed)")
                case (.cancelFrame, nil): break
                default: Issue.record("seed \(seed): \(taken) instead of the answer to \(answer)")
                }
            }
            for _ in 0..<400 {
                if isUnanswered, server.unread.count + server.working.count + server.answers.count > 12 {
                    while !server.unread.isEmpty { server.readNext() }
                    while server.working.count > 4 { server.answerOne(by: &random) }
                    while !server.answers.isEmpty { receive() }
                }
                switch Int.random(in: 0..<8, using: &random) {
                case 0...2:
                    last += 1
                    guard let number = table.insert(RequestID(last), type: 3, at: position) else { continue }
                    inFlight[RequestID(last)] = number
                    server.unread.append(.request(RequestID(last), number))
                    position = position.advanced(by: 1)
                case 3:
                    guard let (id, number) = inFlight.min(by: { $0.key < $1.key }) else { continue }
                    _ = table.abandon(number, until: at(1_000_000))
                    inFlight[id] = nil
                    cancelled.insert(id)
                    let serial = table.noteCancelFrame(for: number, kind, at: position, holdingUntil: at(1_000_000))
                    switch serial {
                    case .none: #expect(table.isExhausted && kind.hasOwnSerial, "seed \(seed)")
                    case .ofRequest:
                        server.unread.append(.cancel(kind, id, of: number, own: nil))
                        position = position.advanced(by: 1)
                    case .own(let own):
                        #expect(!inFlight.values.contains(own) && own != number, "seed \(seed)")
                        server.unread.append(.cancel(kind, id, of: number, own: own))
                        position = position.advanced(by: 1)
                    }
                case 4, 5: server.readNext()
                case 6: server.answerOne(by: &random)
                default: receive()
                }
                #expect(table.count == inFlight.count, "seed \(seed)")
            }
            // Everything is read and answered.
            while !server.unread.isEmpty { server.readNext() }
            while !server.working.isEmpty { server.answerOne(by: &random) }
            while !server.answers.isEmpty { receive() }
            #expect(table.count == 0, "seed \(seed)")
            // A cancel frame for which there was no serial was not sent. Then nothing comes, or the request is answered.
            #expect(table.abandonedCount == 0, "seed \(seed)")
            #expect(table.heldCount == 0, "seed \(seed)")
            #expect(table.isExhausted == false, "seed \(seed)")
        }
    }

    @Test func theNumberOfAnUnansweredRequestIsUsedLast() {
        var table = InFlightTable(matching: .serial(1...3))
        for number in 1...3 as ClosedRange<UInt64> { #expect(table.insert(number: number) == number) }
        for number in [2, 1] as [SerialNumber] {
            _ = table.abandon(number, until: at(60))
            let serial = table.noteCancelFrame(for: number, .unanswered, at: 4, holdingUntil: at(60))
            #expect(serial == .ofRequest)
        }
        #expect(table.abandonedCount == 0 && table.count == 1 && table.heldCount == 1)
        // The response had crossed the cancel frame.
        #expect(table.takeAnswered(1, before: .max).text == "late")
        #expect(table.takeAnswered(3, before: .max).text == "3")
        // Only now the numbers that were never in doubt are used up.
        #expect([5, 6, 7].map { table.insert(number: $0) } == [3, 2, 1])
        #expect(table.isExhausted && table.insert(number: 8) == nil)
        #expect(table.takeAnswered(1, before: .max).text == "7")
    }

    /// A client that only cancels does not remember all of its cancelled requests.
    @Test func theNumberOfAnUnansweredRequestIsForgottenInTime() {
        var table = InFlightTable(matching: .serial(1...1000))
        for number in 1...100 as ClosedRange<UInt64> {
            #expect(table.insert(number: number) == number)
            _ = table.abandon(number, until: at(60 + Double(number)))
            _ = table.noteCancelFrame(for: number, .unanswered, at: 200, holdingUntil: at(60 + Double(number)))
        }
        #expect(table.takeAnswered(100, before: .max).text == "late")
        table.endQuarantine(at: at(159))
        #expect(table.nextQuarantineEnd == at(160))
        #expect(table.takeAnswered(99, before: .max).text == "unknown")
        #expect(table.takeAnswered(100, before: .max).text == "late")
        table.endQuarantine(at: at(160))
        #expect(table.nextQuarantineEnd == nil && table.heldCount == 0)
        #expect(table.takeAnswered(100, before: .max).text == "unknown")
    }

    /// Parts of the reply show that the server still works on the request. Its cancel frame is not answered in time.
    @Test func aFlushedRequestThatIsStillAnsweredKeepsItsNumber() {
        var table = InFlightTable(matching: .serial(1...9))
        #expect(table.insert(number: 1) == 1)
        _ = table.abandon(1, until: at(60))
        #expect(table.noteCancelFrame(for: 1, .flush, at: 2, holdingUntil: at(60)) == .own(2))
        _ = table.match(1, before: .max, prolongingTo: at(100))
        table.endQuarantine(at: at(60))
        #expect(table.holds(1) && table.heldCount == 1)
        table.endQuarantine(at: at(100))
        #expect(table.heldCount == 0 && table.abandonedCount == 0)
    }

    @Test func aFlushedRequestKeepsItsNumberUntilTheFlushIsAnswered() {
        var table = InFlightTable(matching: .serial(1...3))
        #expect(table.insert(number: 1, type: 7) == 1)
        _ = table.abandon(1, until: at(60))
        #expect(table.noteCancelFrame(for: 1, .flush, at: 2, holdingUntil: at(60)) == .own(2))
        #expect(table.count == 0 && table.abandonedCount == 1 && table.heldCount == 2)
        // Nothing of the flush was written.
        #expect(table.takeAnswered(2, before: 2).text == "unknown")
        #expect(table.takeAnswered(1, before: .max) == .late(1, type: 7))
        #expect(table.insert(number: 3) == 3)
        #expect(table.isExhausted)
        #expect(table.takeAnswered(2, before: .max).text == "cancel frame")
        #expect(table.heldCount == 1 && table.abandonedCount == 0)
        #expect(table.takeAnswered(2, before: .max).text == "unknown")
    }

    /// Two serials are free after it.
    @Test func aResponseThatAnswersOnlyACancelFrameIsKnown() {
        var table = InFlightTable(matching: .serial(1...9))
        #expect(table.insert(number: 1, type: 7) == 1)
        _ = table.abandon(1, until: at(60))
        #expect(table.noteCancelFrame(for: 1, .flush, at: 2, holdingUntil: at(60)) == .own(2))
        let answered = table.takeAnswered(.serials([2...2]), 0, types: nil, before: .max)
        #expect(!answered.isEmpty && answered.hasCancelFrame && answered.requests.isEmpty && answered.late.isEmpty)
        #expect(table.heldCount == 0)
    }

    @Test func theQuarantineEndsForACancelFrameThatIsNotAnswered() {
        for kind in [CancelKind.flush, .answeredRequest] {
            var table = InFlightTable(matching: .serial(1...9))
            #expect(table.insert(number: 1) == 1)
            _ = table.abandon(1, until: at(60))
            #expect(table.noteCancelFrame(for: 1, kind, at: 2, holdingUntil: at(61)) == .own(2))
            #expect(table.nextQuarantineEnd == at(60))
            table.endQuarantine(at: at(60))
            #expect(table.abandonedCount == 0 && table.heldCount == 1)
            table.endQuarantine(at: at(61))
            #expect(table.heldCount == 0 && table.nextQuarantineEnd == nil)
        }
    }

    /// The server had answered before the client ended the rest of the request.
    @Test func aCancelFrameOfAnAnsweredRequestEndsNoOther() {
        var table = InFlightTable(matching: .serial(1...9))
        #expect(table.insert(number: 1) == 1)
        #expect(table.takeAnswered(1, before: .max).text == "1")
        #expect(table.noteCancelFrame(for: 1, .flush, at: 2, holdingUntil: at(60)) == .own(2))
        #expect(table.takeAnswered(2, before: .max).text == "cancel frame")
        #expect(table.heldCount == 0)
        #expect(table.noteCancelFrame(for: 1, .unanswered, at: 3, holdingUntil: at(60)) == .ofRequest)
        #expect(table.heldCount == 0)
    }
}
