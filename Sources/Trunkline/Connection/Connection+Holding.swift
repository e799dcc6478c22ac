import TrunklineCore
import TrunklineIO

/// Reading on while the owner wants nothing: a full buffer of one subscriber, or of one streamed reply, must not make the
/// link look dead to the server, nor a dead link look alive to us.
///
/// Heartbeats are handed over as they come; everything else is held, in order, up to `options.inbound.maximumHeld`. Only then
/// reading stops.
extension Connection {
    /// Frames that came while the owner wanted none.
    struct Held {
        private(set) var frames: [Frame] = []
        /// About how much memory they take.
        private(set) var byteCount = 0
        /// The socket has failed: nothing more comes than what is there.
        var isUnlimited = false

        mutating func append(_ frame: Frame) {
            frames.append(frame)
            byteCount += frame.byteCount + MemoryLayout<Frame>.stride
        }
    }

    /// Whether nothing more is to be read before the owner goes on.
    var isHoldFull: Bool { !held.isUnlimited && held.byteCount >= options.inbound.maximumHeld }

    /// How much may be read in one go.
    func readBudget(of most: Int) -> Int {
        isPaused ? max(1, min(most, options.inbound.maximumHeld - held.byteCount)) : most
    }

    /// Sorts out what has just come in: returns what the owner is to have now.
    func hold(_ frames: [Frame]) -> [Frame] {
        guard isPaused else { return held.frames.isEmpty ? frames : exchange(&held, with: Held()).frames + frames }
        var urgent: [Frame] = []
        for frame in frames {
            if frame.kind == .ping || frame.kind == .pong { urgent.append(frame) } else { held.append(frame) }
        }
        if isHoldFull { updateReading() }
        return urgent
    }

    /// The owner goes on, or not. What is held it has soon: it may be in the midst of something.
    func setPaused(_ isPaused: Bool) {
        guard isPaused != self.isPaused else { return }
        self.isPaused = isPaused
        if !isPaused { spillInbox() }
        updateReading()
        guard !isPaused, !held.frames.isEmpty else { return }
        loop.schedule(
            Completion { [weak self] in
                self?.assumeIsolated { connection in
                    if !connection.isPaused { connection.deliverHeld() }
                }
            }
        )
    }

    /// Hands over what is held, whether or not the owner wants it: it came before what follows.
    func deliverHeld() {
        let frames = exchange(&held, with: Held()).frames
        if !frames.isEmpty { owner?.connection(did: .received(frames)) }
    }
}
