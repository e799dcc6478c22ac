import Testing

@testable import TrunklineCore

@Suite struct WaitingLineTests {
    private func frame(_ size: Int) -> Frame { Frame(.request, body: Bytes([UInt8](repeating: 1, count: size))) }

    @Test func whoIsGivenUpIsPassedOverAndCostsNothing() {
        var line = WaitingLine()
        for ticket in [3, 1, 2] as [Ticket] { line.append(ticket, frame(Int(ticket))) }
        #expect(line.byteCount == 3 * 32 + 6)
        #expect(line.first() == 3)
        #expect(line.remove(3)?.body.count == 3)
        #expect(line.remove(3) == nil)
        #expect(line.remove(1) != nil)
        #expect(line.byteCount == 34)
        #expect(line.first() == 2)
        line.removeAll()
        #expect(line.isEmpty && line.byteCount == 0 && line.first() == nil)
    }

    @Test(arguments: 0..<50 as Range<UInt64>)
    func itKeepsItsOrderAndItsCount(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var line = WaitingLine()
        var model: [(ticket: Ticket, size: Int)] = []
        for ticket in 1...2000 as ClosedRange<Ticket> {
            let size = Int.random(in: 0...50, using: &random)
            line.append(ticket, frame(size))
            model.append((ticket, size))
            for _ in 0..<Int.random(in: 0...2, using: &random) where !model.isEmpty {
                // The first now and then; as a rule one of the others is given up.
                let index = Bool.random(using: &random) ? 0 : Int.random(in: 0..<model.count, using: &random)
                let gone = model.remove(at: index)
                #expect(line.remove(gone.ticket)?.body.count == gone.size)
            }
            #expect(line.first() == model.first?.ticket)
            #expect(line.byteCount == model.reduce(0) { $0 + $1.size + 32 })
            #expect(line.isEmpty == model.isEmpty)
        }
    }
}
