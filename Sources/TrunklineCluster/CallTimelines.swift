import TrunklineCore

/// Joins the timelines of the tries of a cluster's call, for the recorder of its caller.
final class CallTimelines: TimelineReceiver {
    private let begun: Instant
    private let recorder: TimelineRecorder
    private let state = Lock(State())

    private struct State {
        var failed: Timeline?
        var member: ClusterMember?
        var rested: Instant?
    }

    init(_ recorder: TimelineRecorder, since begun: Instant) { (self.recorder, self.begun) = (recorder, begun) }

    func begin(on member: ClusterMember, rested: Instant?) {
        state.withLock { ($0.member, $0.rested) = (member, rested) }
    }

    /// If the try failed before anything of the reply arrived, another one may follow.
    func add(_ timeline: Timeline) {
        let isOver = timeline.failure == nil || timeline.tries.last?.firstPart != nil
        let joined = state.withLock { state in
            let isEjected = state.member?.isEjected ?? false
            let joined = timeline.joined(
                to: state.failed,
                since: begun,
                rested: state.rested,
                isServerEjected: isEjected
            )
            state.failed = isOver ? nil : joined
            return joined
        }
        if isOver { recorder.add(joined) }
    }

    func end(_ timeline: Timeline?) {
        let failed = state.withLock { exchange(&$0.failed, with: nil) }
        if let timeline = timeline ?? failed { recorder.add(timeline) }
    }
}
