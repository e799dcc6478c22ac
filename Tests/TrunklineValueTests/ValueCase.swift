import Testing

/// A use of public declarations with every extreme value.
struct ValueCase: Sendable, CustomTestStringConvertible {
    /// The declarations that are used, as in `APIList`.
    let names: [String]
    let use: @Sendable () async throws -> Void

    init(_ names: String..., use: @escaping @Sendable () async throws -> Void) {
        self.names = names
        self.use = use
    }

    var testDescription: String { names.joined(separator: ", ") }
}

/// Every public option and argument that is a number, a duration or a range has a case that tries the extreme values.
struct ValueCoverageTests {
    private static let cases =
        OptionValueTests.cases + ArgumentValueTests.cases + SimulatedValueTests.cases + SocketValueTests.cases
        + ClusterValueTests.cases

    @Test func everyValueOfTheAPIHasACase() {
        let declared = APIList.recorded.declarations
        #expect(declared.count > 250, "the recorded API in .ci/api cannot be read")
        let used = Set(Self.cases.flatMap { $0.names })
        for name in declared.subtracting(used).sorted() where !ReadOnlyValues.contains(name) {
            Issue.record(
                """
                \(name) can have any value, and no test tries the extreme ones. Add it to a case of `OptionValueTests`, \
                `ArgumentValueTests`, `SimulatedValueTests` or `SocketValueTests`. No value may trap: the declaration \
                clamps it, as its comment says, or throws. A value that only this package creates belongs in \
                `ReadOnlyValues`.
                """
            )
        }
        for name in used.subtracting(declared).sorted() {
            Issue.record("no public declaration is named \(name): a case has an old name")
        }
    }

    @Test func theListIsReadCorrectly() {
        let lines = [
            "Backoff | init(minimum: Duration = .zero, factor: Double = 2, _ body: () -> Int)":
                "Backoff.init(minimum: Duration, factor: Double)",
            "Checksum | init(_ name: String, width: Int, _ compute: @escaping @Sendable (Bytes) -> [UInt8])":
                "Checksum.init(width: Int)",
            "Role | static func bits(_ range: some RangeExpression<Int>, of field: String? = nil) -> Role":
                "Role.bits(_: some RangeExpression<Int>)",
            "Frame | subscript(field: String) -> UInt64? { get set }": "Frame.subscript -> UInt64?",
            "Cache | var maximumBytes: Int": "Cache.maximumBytes: Int",
            "GoAwayCodec | requirement func retryAfter(in goAway: Frame) -> Duration?":
                "GoAwayCodec.retryAfter -> Duration?",
            "RetryPolicy | indirect case idempotent(tries: Int = 3, backoff: Backoff = Backoff())":
                "RetryPolicy.idempotent(tries: Int)",
            "RecorderOptions | static func ring(bytes: Int = 1 << 20) -> RecorderOptions":
                "RecorderOptions.ring(bytes: Int)",
            "PushKey | case number(UInt64)": "PushKey.number(_: UInt64)",
            "| func withTimeout<Value>(_ timeout: Duration, clock: some Clock<Duration> = A(), _ body: () -> Value)":
                "withTimeout(_: Duration, clock: some Clock<Duration>)",
            "Role | static func bits(_ range: Range<Int>, holding numbers: [Set<UInt64>] = [1 << 2]) -> Role":
                "Role.bits(_: Range<Int>, holding: [Set<UInt64>])",
            "Bytes | init(_ array: [UInt8])": nil, "Bytes | subscript(position: Int) -> UInt8 { get }": nil,
            "Client | func close() async": nil, "Bytes | var endIndex: Int { get }": nil,
        ]
        for (line, name) in lines { #expect(APIList.declaration(in: line) == name) }
    }
}

/// Public declarations with values that users read, because this package creates them.
enum ReadOnlyValues {
    static let reasons = [
        "Push.dropped": "an element of a stream",
        "Recording.Field.Value": "the content of a recording, which is read from text",
        "Recording.Outcome": "an outcome in a recording",
        "ClusterChange": "what a cluster reports",
        "RequestSender.perform": "it returns what its closure returns",
        "HTTPTunnel.Metrics": "counters, which nothing reads back",
        "HTTPGateway.Metrics": "counters, which nothing reads back",
    ]

    static func contains(_ name: String) -> Bool { reasons.keys.contains { name.hasPrefix($0) } }
}
