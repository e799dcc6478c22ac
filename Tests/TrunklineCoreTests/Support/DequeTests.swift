import Testing

@testable import TrunklineCore
@testable import TrunklineIO

@Suite struct DequeTests {}

extension DequeTests {
    @Test func bothEndsCanBeTakenAcrossTheWrap() {
        var deque = Deque<Int>()
        #expect(deque.popLast() == nil)
        for number in 0..<4 { deque.append(number) }
        #expect(deque.popFirst() == 0 && deque.popFirst() == 1)
        for number in 4..<6 { deque.append(number) }
        #expect(deque.popLast() == 5 && deque.popLast() == 4 && deque.last == 3)
        deque.append(7)
        #expect(deque.popFirst() == 2 && deque.popFirst() == 3 && deque.popLast() == 7)
        #expect(deque.isEmpty && deque.popLast() == nil && deque.popFirst() == nil)
    }
}
