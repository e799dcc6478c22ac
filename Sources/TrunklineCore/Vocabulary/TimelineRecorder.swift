/// Receives the timelines of the calls that it is passed to.
///
/// ```swift
/// let recorder = TimelineRecorder()
/// let response = try await client.send(request, options: CallOptions(recorder: recorder))
/// print(recorder.timelines)
/// ```
///
/// A recorder can be passed to any number of calls. The timeline of a request is added when the request ends: before
/// the call returns, or before the stream or the handle reports the end.
public final class TimelineRecorder: TimelineReceiver {
    private let recorded = Lock(Deque<Timeline>())
    private let capacity: Int
    private let next: (any TimelineReceiver)?

    /// Creates a recorder.
    ///
    /// - Parameter capacity: The maximum number of timelines to keep; the oldest are discarded. Default: 1,000. At
    ///   least 1.
    public convenience init(capacity: Int = 1000) { self.init(capacity: capacity, forwardingTo: nil) }

    package init(capacity: Int, forwardingTo next: (any TimelineReceiver)?) {
        self.capacity = max(1, capacity)
        self.next = next
    }

    /// The timelines of the requests that have ended, in the order of their ends.
    public var timelines: [Timeline] { recorded.withLock(\.all) }

    /// Removes and returns all timelines.
    public func takeAll() -> [Timeline] { recorded.withLock { exchange(&$0, with: Deque()) }.all }

    package func add(_ timeline: Timeline) {
        recorded.withLock { recorded in
            if recorded.count == capacity { _ = recorded.popFirst() }
            recorded.append(timeline)
        }
        next?.add(timeline)
    }
}

package protocol TimelineReceiver: Sendable {
    func add(_ timeline: Timeline)
}

extension TimelineRecorder: Hashable {
    /// Whether both are the same recorder.
    public static func == (a: TimelineRecorder, b: TimelineRecorder) -> Bool { a === b }

    /// Hashes the identity of the recorder.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

extension Deque<Timeline> {
    fileprivate var all: [Timeline] { (0..<count).map { self[$0] } }
}
