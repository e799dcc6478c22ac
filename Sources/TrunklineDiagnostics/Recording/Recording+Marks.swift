import TrunklineCore

extension Recording {
    /// The channel, and what a codec says of a response or part: which requests it belongs to and how it ends them.
    struct Marks: Sendable, Hashable {
        var answers = Frame.Answers.one
        /// `nil` for all types.
        var answeredTypes: Set<UInt32>?
        var isFateUnknown = false
        var channel: UInt64 = 0
    }
}

extension Recording.Marks {
    init(of frame: Frame, channel: UInt64) {
        self.init(
            answers: frame.answers,
            answeredTypes: frame.answeredTypes,
            isFateUnknown: frame.isFateUnknown,
            channel: channel
        )
    }

    /// Members of a JSON object, such as `"answers":"through","channel":7`. Defaults are left out.
    var members: String {
        guard self != Recording.Marks() else { return "" }
        var members: [String] = []
        switch answers {
        case .one: break
        case .through: members.append("\"answers\":\"through\"")
        case .all: members.append("\"answers\":\"all\"")
        case .next(let count): members.append("\"answers\":\(count)")
        case .serials(let ranges):
            let list = ranges.map { "[\($0.lowerBound),\($0.upperBound)]" }.joined(separator: ",")
            members.append("\"answers\":[\(list)]")
        @unknown default: break
        }
        if let answeredTypes {
            let list = answeredTypes.sorted().map { "\($0)" }.joined(separator: ",")
            members.append("\"answered_types\":[\(list)]")
        }
        if isFateUnknown { members.append("\"fate_unknown\":true") }
        if channel != 0 { members.append("\"channel\":\(channel)") }
        return members.joined(separator: ",")
    }

    init(_ object: JSONValue) throws(RecordingMistake) {
        let expected = "\"through\", \"all\", a number of requests, or a list of ranges of serials"
        answers = try object.member("answers", expected) { Frame.Answers($0) } ?? .one
        answeredTypes = try object.member("answered_types", "a list of integers from 0 to \(UInt32.max)") { value in
            guard case .list(let elements) = value else { return nil }
            let types = elements.compactMap { $0.integer(UInt32.self) }
            return types.count == elements.count ? Set(types) : nil
        }
        isFateUnknown = try object.flag("fate_unknown")
        channel = try object.integer("channel")
    }
}

extension Frame.Answers {
    fileprivate init?(_ value: JSONValue) {
        if value.text == "through" {
            self = .through
        } else if value.text == "all" {
            self = .all
        } else if let count = value.integer(Int.self), count > 0 {
            self = .next(count)
        } else if case .list(let elements) = value {
            let ranges = elements.compactMap { ClosedRange($0) }
            guard ranges.count == elements.count else { return nil }
            self = .serials(ranges)
        } else {
            return nil
        }
    }
}

extension ClosedRange<SerialNumber> {
    fileprivate init?(_ value: JSONValue) {
        guard case .list(let ends) = value, ends.count == 2, let first = ends[0].integer(SerialNumber.self),
            let last = ends[1].integer(SerialNumber.self), first <= last
        else { return nil }
        self = first...last
    }
}
