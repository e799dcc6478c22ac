import Testing

@testable import TrunklineDiagnostics

struct CalendarTimeTests {
    @Test(arguments: [
        (0, "1970-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (951_868_799, "2000-02-29T23:59:59Z"),
        (951_868_800, "2000-03-01T00:00:00Z"),
        (1_796_000_435, "2026-11-30T01:00:35Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
        (4_107_456_000, "2100-02-28T00:00:00Z"),
        (Int64.max, "9999-12-31T23:59:59Z"),
        (Int64.min, "0000-01-01T00:00:00Z"),
    ])
    func aTimeIsWrittenInUTC(seconds: Int64, text: String) {
        #expect(CalendarTime.text(unixSeconds: seconds) == text)
    }
}
