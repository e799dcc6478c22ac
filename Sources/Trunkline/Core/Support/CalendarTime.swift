/// A time in UTC by the calendar, for people who read a log.
package struct CalendarTime: Sendable {
    private let milliseconds: Int64

    /// - Parameter timeSince1970: The time since 1970-01-01 00:00 UTC. Limited to the years 1678 to 2262.
    package init(_ timeSince1970: Duration) {
        let (milliseconds, rest) = timeSince1970.clampedNanoseconds.quotientAndRemainder(dividingBy: 1_000_000)
        self.milliseconds = rest < 0 ? milliseconds - 1 : milliseconds
    }

    /// The time in the format of RFC 3339, with milliseconds: `2026-11-27T05:31:07.402Z`.
    package var text: String {
        func digits(_ number: Int64, _ count: Int) -> String {
            let text = String(number)
            return String(repeating: "0", count: max(0, count - text.utf8.count)) + text
        }
        let day = 86_400_000 as Int64
        let ofDay = (milliseconds % day + day) % day
        let date = Self.date(daysSince1970: (milliseconds - ofDay) / day)
        let time = "\(digits(ofDay / 3_600_000, 2)):\(digits(ofDay / 60_000 % 60, 2)):\(digits(ofDay / 1000 % 60, 2))"
        return
            "\(digits(date.year, 4))-\(digits(date.month, 2))-\(digits(date.day, 2))T\(time).\(digits(ofDay % 1000, 3))Z"
    }

    /// The date of the Gregorian calendar. Its pattern repeats every 400 years of 146,097 days. Years are counted from March,
    /// so that the day that is inserted is the last one.
    private static func date(daysSince1970 days: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let sinceMarch0000 = days + 719_468
        let cycle = (sinceMarch0000 >= 0 ? sinceMarch0000 : sinceMarch0000 - 146_096) / 146_097
        let dayOfCycle = sinceMarch0000 - cycle * 146_097
        let yearOfCycle = (dayOfCycle - dayOfCycle / 1460 + dayOfCycle / 36_524 - dayOfCycle / 146_096) / 365
        let dayOfYear = dayOfCycle - (365 * yearOfCycle + yearOfCycle / 4 - yearOfCycle / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        let day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        return (cycle * 400 + yearOfCycle + (month <= 2 ? 1 : 0), month, day)
    }
}
