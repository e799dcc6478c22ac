/// Responses that answer several requests.
extension InFlightTable {
    /// Matched by serial: what is known about the order of numbers since the latest cumulative acknowledgement.
    struct Acknowledged: Sendable {
        /// Every request of `types` with an earlier number has left the table.
        var first: SerialNumber = 0
        var types: Set<UInt32>?
        /// Whether `first` is not known, or numbers were not used in ascending order since then.
        var isOutOfOrder = true
    }

    /// The requests that a response has answered, and which have left the table, in the order of their frames.
    package struct AnsweredRequests: Sendable, Equatable {
        package struct Request: Sendable, Equatable {
            package let id: RequestID
            package let position: OutboundPosition
            /// 0 if matched in order.
            package let serial: SerialNumber
        }

        package struct Late: Sendable, Equatable {
            package let id: RequestID
            package let type: UInt32
        }

        package var requests: [Request] = []
        /// The abandoned ones among them. The response must be discarded.
        package var late: [Late] = []

        /// Whether cancel frames are among them, so that serials are free.
        package var hasCancelFrame = false

        package var isEmpty: Bool { requests.isEmpty && late.isEmpty && !hasCancelFrame }
    }

    /// Takes a complete response that answers several requests, and removes them.
    ///
    /// - Parameters:
    ///   - serial: The serial of the response or, matched in order by channel, its channel.
    ///   - types: The types of the requests that it can answer; `nil` for all.
    ///   - unstarted: No frame from here on has been written, so the response cannot belong to one of those.
    package mutating func takeAnswered(
        _ answers: Frame.Answers,
        _ serial: SerialNumber,
        types: Set<UInt32>?,
        before unstarted: OutboundPosition
    ) -> AnsweredRequests {
        var answered = AnsweredRequests()
        switch answers {
        case .one: break  // see `takeAnswered(_:before:)`
        case .next(let count):
            guard isInOrder else { break }
            var rest = count
            while rest > 0, let number = number(of: serial), take(number, nil, unstarted, into: &answered) { rest -= 1 }
        case .through:
            if !isInOrder, range.contains(serial) { takeThrough(serial, types, unstarted, into: &answered) }
        case .serials(let ranges):
            guard !isInOrder else { break }
            for range in ranges { takeAll(in: range, types, unstarted, into: &answered) }
        case .all: takeAll(in: 0...SerialNumber.max, types, unstarted, into: &answered)
        }
        answered.requests.sort { $0.position < $1.position }
        return answered
    }

    /// Removes the request with `number`, if it can have been answered. Returns whether it was there.
    @discardableResult
    private mutating func take(
        _ number: SerialNumber,
        _ types: Set<UInt32>?,
        _ unstarted: OutboundPosition,
        into answered: inout AnsweredRequests
    ) -> Bool {
        switch slots[number] {
        case .inFlight(let entry)?:
            guard entry.position < unstarted, types?.contains(entry.type) ?? true, remove(number, wasSent: true) != nil
            else {
                return false
            }
            answered.requests.append(
                AnsweredRequests.Request(id: entry.id, position: entry.position, serial: isInOrder ? 0 : number)
            )
        case .abandoned(let id, let type, _)?:
            guard types?.contains(type) ?? true else { return false }
            if endRepeated(number) {
                abandonedCount -= 1
                beginEcho(number, of: id, type: type)
            } else if !isFlushed(number) {
                removeAbandoned(number)
            }
            answered.late.append(AnsweredRequests.Late(id: id, type: type))
        case .cancelFrame?:
            guard types == nil, let frame = cancellations.frames[number], frame.position < unstarted else {
                return false
            }
            endCancelFrame(number)
            answered.hasCancelFrame = true
        case .released?, .echo?: return false
        case nil: return false
        }
        return true
    }

    private mutating func takeAll(
        in range: ClosedRange<SerialNumber>,
        _ types: Set<UInt32>?,
        _ unstarted: OutboundPosition,
        into answered: inout AnsweredRequests
    ) {
        if range.upperBound - range.lowerBound <= UInt64(slots.count) {
            for number in range { take(number, types, unstarted, into: &answered) }
        } else {
            for (number, _) in slots.sorted where range.contains(number) {
                take(number, types, unstarted, into: &answered)
            }
        }
    }

    /// Takes the requests with `serial` and with earlier ones.
    ///
    /// Usually the search begins behind the latest acknowledgement. So all searches together pass each number once.
    private mutating func takeThrough(
        _ serial: SerialNumber,
        _ types: Set<UInt32>?,
        _ unstarted: OutboundPosition,
        into answered: inout AnsweredRequests
    ) {
        if isDrawn {
            self.take(serial, types, unstarted, into: &answered)
            return
        }
        var isComplete = true
        func take(_ number: SerialNumber) {
            if let entry = self[number], entry.position >= unstarted { isComplete = false }
            self.take(number, types, unstarted, into: &answered)
        }
        if acknowledged.isOutOfOrder || acknowledged.types != types {
            let age = age(of: serial)
            for (number, _) in slots.sorted where self.age(of: number) >= age { take(number) }
        } else {
            guard serial >= acknowledged.first, serial < next else { return }
            for number in acknowledged.first...serial { take(number) }
        }
        // Without a sequence, the order of numbers says nothing about the next acknowledgement.
        let isInSequence = isComplete && serial < next && free == nil
        acknowledged = Acknowledged(first: serial &+ 1, types: types, isOutOfOrder: !isInSequence)
    }

    /// How many numbers were used after `number`, across the end of the range.
    private func age(of number: SerialNumber) -> UInt64 {
        let last = next == range.lowerBound ? range.upperBound : next - 1
        return number <= last ? last - number : last - range.lowerBound + (range.upperBound - number) + 1
    }
}
