package struct HashRing: Sendable {
    package init(_ members: [(hash: UInt64, weight: Double)]) { n = members.count }
    let n: Int
    package func member(for key: UInt64, accepting isAccepted: (Int) -> Bool) -> Int? { n == 0 ? nil : Int(key % UInt64(n)) }
    package static func hash(_ bytes: some Sequence<UInt8>) -> UInt64 { bytes.reduce(14695981039346656037) { ($0 ^ UInt64($1)) &* 1099511628211 } }
    package static func bound(total: Int, share: Double, factor: Double) -> Int { max(1, Int((factor * Double(total + 1) * share).rounded(.up))) }
}
package enum RendezvousSubset { package static func choose(_ size: Int, of hashes: [UInt64], seed: UInt64) -> [Int] { Array(hashes.indices.prefix(size)) } }
package struct WeightedTurns: Sendable { let n: Int; package init(_ weights: [Double]) { n = weights.count }
    package subscript(turn: UInt64) -> Int? { n == 0 ? nil : Int(turn % UInt64(n)) } }
package struct InFlightLimit: Sendable { package var value: Int; package init(initial: Int, bounds: ClosedRange<Int>) { value = initial }
  package mutating func succeeded(inFlight: Int, at now: Instant) {}
  package mutating func overloaded(at now: Instant) {} }
package enum SlowStart { package static func share(since: Instant, at now: Instant, over: Duration) -> Double { 1 } }
