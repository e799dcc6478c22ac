import Testing

@testable import TrunklineCore

/// Answers of name servers with SRV records.
@Suite struct SRVRecordsTests {}

extension SRVRecordsTests {
    private static func integer(_ value: Int) -> [UInt8] { [UInt8(value >> 8), UInt8(value & 0xff)] }

    private static func name(_ text: String) -> [UInt8] {
        text.split(separator: ".").flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) } + [0]
    }

    private static func record(_ type: Int, class kind: Int = 1, owner: [UInt8] = [0xc0, 12], _ data: [UInt8])
        -> [UInt8]
    {
        owner + integer(type) + integer(kind) + [0, 0, 0, 60] + integer(data.count) + data
    }

    private static func srv(_ priority: Int, _ weight: Int, _ port: Int, _ target: [UInt8]) -> [UInt8] {
        record(33, integer(priority) + integer(weight) + integer(port) + target)
    }

    private static let question = name("_acme._tcp.orders.example") + integer(33) + integer(1)

    private static func message(flags: Int = 0x8180, questions: Int = 1, _ answers: [[UInt8]]) -> [UInt8] {
        integer(7) + integer(flags) + integer(questions) + integer(answers.count) + [0, 0, 0, 1]
            + (0..<questions).flatMap { _ in question } + answers.joined()
    }

    /// Two records, the second of which has a compressed target, after an alias.
    private static let good = message([
        record(5, name("real.example")),
        srv(10, 3, 7000, name("a.orders.example")),
        // "b", and then a pointer to "orders.example" in the question.
        srv(10, 1, 7001, [1, UInt8(ascii: "b"), 0xc0, 12 + 11]),
    ])

    private func error(of message: [UInt8]) -> SRVError? {
        do throws(SRVError) {
            _ = try SRVRecords(reading: message)
            return nil
        } catch {
            return error
        }
    }

    // MARK: Reading

    /// Each name of a message could lead to thousands of pointers: 64 KiB took 0.4 billion instructions.
    @Test func aNameHasAFewPointersAtMost() throws {
        func message(pointers: Int) -> [UInt8] {
            // The data of a record of another type: a name of one byte, and pointers, each to the one before.
            let start = 12 + 11
            let places = (0..<pointers).map { $0 == 0 ? start : start + 1 + 2 * ($0 - 1) }
            let pointers = places.flatMap { place -> [UInt8] in [0xc0 | UInt8(place >> 8), UInt8(place & 0xff)] }
            let chain: [UInt8] = [0] + pointers
            let other = Self.record(5, owner: [0], chain)
            let last = start + 1 + 2 * (places.count - 1)
            let owner = [0xc0 | UInt8(last >> 8), UInt8(last & 0xff)]
            let data = Self.integer(1) + Self.integer(2) + Self.integer(3) + Self.name("x")
            return Self.message(questions: 0, [other, Self.record(33, owner: owner, data)])
        }
        #expect(try SRVRecords(reading: message(pointers: 126)).all.map(\.target) == ["x"])
        guard case .malformed(let reason, _) = error(of: message(pointers: 127)) else {
            Issue.record("the message was read")
            return
        }
        #expect(reason == "a name with more than 127 pointers")
    }

    @Test func recordsAreRead() throws {
        let records = try SRVRecords(reading: Self.good).all
        #expect(
            records == [
                SRVRecord(priority: 10, weight: 3, port: 7000, target: "a.orders.example"),
                SRVRecord(priority: 10, weight: 1, port: 7001, target: "b.orders.example"),
            ]
        )
    }

    @Test func recordsOfOtherTypesAndClassesAreSkipped() throws {
        let chaos = Self.record(33, class: 3, [0, 1, 0, 1, 0, 1, 0])
        let records = try SRVRecords(reading: Self.message([Self.record(1, [10, 0, 0, 1]), chaos])).all
        #expect(records.isEmpty)
    }

    @Test func aMessageWithoutQuestionIsRead() throws {
        let record = Self.record(33, owner: [0], Self.integer(1) + Self.integer(2) + Self.integer(3) + Self.name("x"))
        let records = try SRVRecords(reading: Self.message(questions: 0, [record])).all
        #expect(records == [SRVRecord(priority: 1, weight: 2, port: 3, target: "x")])
    }

    @Test func errorsOfTheServerAreReported() {
        for code in 1...15 as ClosedRange<UInt8> {
            #expect(error(of: Self.message(flags: 0x8180 | Int(code), [])) == .refused(code: code))
        }
        #expect("\(SRVError.refused(code: 3))".contains("NXDOMAIN"))
    }

    @Test func aQuestionOrATruncatedMessageIsNoAnswer() {
        #expect(error(of: Self.message(flags: 0x0100, [])) == .malformed("not a response", offset: 2))
        #expect(error(of: Self.message(flags: 0x8380, [])) == .malformed("truncated by the name server", offset: 2))
    }

    // MARK: Choosing

    private func preferred(_ records: [SRVRecord]) throws(SRVError) -> [String] {
        try SRVRecords(records).preferred().map { "\($0.record.target):\($0.record.port) \($0.weight)" }
    }

    @Test func onlyTheLowestPriorityNumberCounts() throws {
        let records = [(20, "a"), (10, "b"), (30, "c"), (10, "d")].map {
            SRVRecord(priority: UInt16($0.0), weight: 5, port: 1, target: $0.1)
        }
        #expect(try preferred(records) == ["b:1 5.0", "d:1 5.0"])
    }

    /// RFC 2782 draws a number from 0 to the sum of the weights: weight 0 is chosen if the number is 0.
    @Test func weightZeroHasASmallShare() throws {
        func record(_ weight: UInt16, _ target: String) -> SRVRecord {
            SRVRecord(priority: 1, weight: weight, port: 1, target: target)
        }
        #expect(try preferred([record(99, "a"), record(0, "b")]) == ["a:1 99.0", "b:1 1.0"])
        #expect(try preferred([record(9, "a"), record(0, "b"), record(0, "c")]) == ["a:1 9.0", "b:1 0.5", "c:1 0.5"])
        #expect(try preferred([record(0, "a"), record(0, "b")]) == ["a:1 0.5", "b:1 0.5"])
    }

    @Test func theRootAsTargetMeansThatThereIsNoService() throws {
        let none = SRVRecord(priority: 0, weight: 0, port: 0, target: "")
        #expect(throws: SRVError.notAvailable) { try preferred([none]) }
        #expect(try SRVRecords(reading: Self.message([Self.srv(0, 0, 0, [0])])).all == [none])
        #expect(throws: SRVError.noRecords) { try preferred([]) }
        // Beside others it is a mistake of the operator.
        let other = SRVRecord(priority: 5, weight: 1, port: 1, target: "a")
        #expect(try preferred([none, other]) == ["a:1 1.0"])
    }

    @Test func aRecordWithPortZeroIsNotUsed() {
        let record = SRVRecord(priority: 1, weight: 1, port: 0, target: "a")
        #expect(throws: SRVError.noRecords) { try preferred([record]) }
    }

    // MARK: Invalid messages

    @Test func everyTruncationIsMalformed() {
        for count in Self.good.indices {
            guard case .malformed? = error(of: Array(Self.good.prefix(count))) else {
                Issue.record("\(count) bytes are accepted")
                continue
            }
        }
        #expect(error(of: Self.good) == nil)
    }

    @Test(
        arguments: [
            [0xc0, 0xff], [0xff, 0xff], [0xc0], [64, 1], [0x80, 1], [63, 1], [],
            // A label, and then a pointer to the same place.
            [1, 65, 0xc0, 12 + 31 + 18],
        ] as [[UInt8]]
    )
    func invalidNamesAreMalformed(name: [UInt8]) {
        guard case .malformed? = error(of: Self.message([Self.srv(1, 1, 1, name)])) else {
            Issue.record("\(name) is accepted")
            return
        }
    }

    /// A chain of pointers that lead to one another, in both directions, and one that leads to itself.
    @Test func loopsOfPointersEnd() {
        let start = 12
        for pointers in [[start], [start + 2, start], [start + 4, start, start + 2]] {
            let names = pointers.flatMap { [UInt8(0xc0), UInt8($0)] }
            let bytes =
                Self.integer(7) + Self.integer(0x8180) + Self.integer(1) + Self.integer(0) + [0, 0, 0, 0] + names
            guard case .malformed? = error(of: bytes + [0, 33, 0, 1]) else {
                Issue.record("\(pointers) are accepted")
                continue
            }
        }
    }

    @Test func aNameHasAtMost255Bytes() {
        let label = [UInt8(63)] + [UInt8](repeating: UInt8(ascii: "a"), count: 63)
        let (longest, tooLong) = (
            label + label + label + [60] + label[1...60], label + label + label + [62] + label[1...62]
        )
        #expect(error(of: Self.message([Self.srv(1, 1, 1, longest + [0])])) == nil)
        #expect(error(of: Self.message([Self.srv(1, 1, 1, tooLong + [0])])) != nil)
    }

    /// The system would read such names as others.
    @Test(arguments: ["a.b", "a\0b", "a b", "ä", "a%b", "a/b"])
    func aLabelThatIsNotTheNameOfAHostIsMalformed(label: String) {
        let target = [UInt8(label.utf8.count)] + Array(label.utf8) + [0]
        guard case .malformed? = error(of: Self.message([Self.srv(1, 1, 1, target)])) else {
            Issue.record("\(label) is accepted")
            return
        }
    }

    @Test func theLengthOfARecordMustBeThatOfItsTarget() {
        for length in [0, 6, 8, 9, 11] {
            var record = Self.srv(1, 1, 1, Self.name("ab"))
            record.replaceSubrange(10..<12, with: Self.integer(length))
            #expect(error(of: Self.message([record])) != nil, "\(length)")
        }
    }

    @Test(arguments: seeds(20))
    func changedMessagesNeverTrap(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<2000 {
            var bytes = Self.good
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                let index = Int.random(in: bytes.indices, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes.remove(at: index)
                case 1: bytes.insert(.random(in: 0...255, using: &random), at: index)
                case 2: bytes[index] = 0xc0 | .random(in: 0...255, using: &random)
                default: bytes[index] = .random(in: 0...255, using: &random)
                }
            }
            if let records = try? SRVRecords(reading: bytes) { #expect(records.all.count <= bytes.count / 19 + 1) }
        }
    }

    @Test(arguments: seeds(20))
    func randomBytesNeverTrap(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<500 {
            let rest = (0..<Int.random(in: 0..<300, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            _ = try? SRVRecords(reading: rest)
            _ = try? SRVRecords(reading: Array(Self.good.prefix(12)) + rest)
        }
    }
}
