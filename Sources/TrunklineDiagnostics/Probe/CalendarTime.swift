/// A time as ISO 8601 writes it, without Foundation.
enum CalendarTime {
    /// Returns the time in UTC, such as `2026-11-29T23:10:35Z`. Times outside of the years 0 to 9999 count as the
    /// nearest one within.
    static func text(unixSeconds: Int64) -> String {
        let seconds = min(max(unixSeconds, -62_167_219_200), 253_402_300_799)
        let (days, rest) = seconds.quotientAndRemainder(dividingBy: 86_400)
        let (day, second) = rest < 0 ? (days - 1, rest + 86_400) : (days, rest)
        let (year, month, dayOfMonth) = date(ofDay: day)
        let date = "\(padded(year, 4))-\(padded(month, 2))-\(padded(dayOfMonth, 2))"
        return date + "T\(padded(second / 3600, 2)):\(padded(second / 60 % 60, 2)):\(padded(second % 60, 2))Z"
    }

    /// The date of a day, counted from 1970-01-01, in the Gregorian calendar. Years begin in March here, so that a leap
    /// day is the last of its year; 400 years have 146,097 days.
    private static func date(ofDay day: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let shifted = day + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let month = (5 * dayOfYear + 2) / 153
        let dayOfMonth = dayOfYear - (153 * month + 2) / 5 + 1
        let civilMonth = month < 10 ? month + 3 : month - 9
        return (yearOfEra + era * 400 + (civilMonth <= 2 ? 1 : 0), civilMonth, dayOfMonth)
    }

    private static func padded(_ number: Int64, _ count: Int) -> String {
        let digits = "\(number)"
        return String(repeating: "0", count: max(0, count - digits.count)) + digits
    }
}
