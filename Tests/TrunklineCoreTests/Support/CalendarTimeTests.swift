import Testing

@testable import TrunklineCore

@Suite struct CalendarTimeTests {}

extension CalendarTimeTests {
    @Test(arguments: [
        (Duration.zero, "1970-01-01T00:00:00.000Z"), (.milliseconds(-1), "1969-12-31T23:59:59.999Z"),
        (.nanoseconds(-1), "1969-12-31T23:59:59.999Z"), (.seconds(68_169_600), "1972-02-29T00:00:00.000Z"),
        (.seconds(951_782_399), "2000-02-28T23:59:59.000Z"), (.seconds(951_868_800), "2000-03-01T00:00:00.000Z"),
        (.seconds(4_107_542_400), "2100-03-01T00:00:00.000Z"),
        (.milliseconds(1_795_757_467_402), "2026-11-27T05:31:07.402Z"),
    ])
    func aTimeIsADateOfTheCalendar(_ time: Duration, text: String) {
        #expect(CalendarTime(time).text() == text)
        let exact = CalendarTime(time).text(decimals: 9)
        #expect(CalendarTime(exact)?.timeSince1970 == time)
    }

    @Test(arguments: [
        (0, "1970-01-01T00:00:00Z"), (-1, "1969-12-31T23:59:59Z"), (951_868_799, "2000-02-29T23:59:59Z"),
        (Int64.max, "9999-12-31T23:59:59Z"), (Int64.min, "0000-01-01T00:00:00Z"),
    ])
    func aTimeInSecondsMayBeInAnyYear(seconds: Int64, text: String) {
        #expect(CalendarTime(seconds: seconds).text(decimals: 0) == text)
    }

    /// What does not fit is the first or the last time that does.
    @Test func extremeTimesAreClamped() {
        let extreme = Duration(secondsComponent: .max, attosecondsComponent: 0)
        #expect(CalendarTime(extreme).text() == "2262-04-11T23:47:16.854Z")
        #expect(CalendarTime(.zero - extreme).text() == "1677-09-21T00:12:43.145Z")
    }

    @Test(arguments: [
        ("2026-11-25T22:40:00Z", 1_795_646_400), ("2026-11-25t23:40:00.000+01:00", 1_795_646_400),
        ("2026-11-25 17:10:00-05:30", 1_795_646_400),
    ])
    func otherFormsOfRFC3339AreRead(text: String, seconds: Int) {
        #expect(CalendarTime(text)?.timeSince1970 == .seconds(seconds))
    }

    @Test(arguments: [
        "", "2026-11-25", "2026-11-25T22:40Z", "2026-13-25T22:40:00Z", "2026-11-25T22:40:00", "2026-11-25T22:40:00.Z",
        "2300-01-01T00:00:00Z", "2026-11-25T22:40:00Zz", "２026-11-25T22:40:00Z",
    ])
    func otherTextIsNoTime(text: String) { #expect(CalendarTime(text) == nil) }
}
