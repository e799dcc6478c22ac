/// What becomes of a link when its route changes, or the machine wakes up from sleep.
@nonexhaustive
public enum RouteChangePolicy: Sendable, Hashable {
    /// Nothing happens: `liveness` notices a dead link within `interval + deadline` (40 s unless changed).
    case ignore
    /// A ping goes out at once, so that a dead link is noticed within `liveness.deadline` (10 s unless changed): when packets of
    /// the link take another route or have none, and after sleep. A link that answers stays. Needs a codec with a ping and
    /// `liveness.heartbeat` `.pingPong`; without them as `ignore`.
    case probe
    /// As `probe`, and the next link is made to the same endpoint before the present one drains, a planned change: when packets
    /// of the link take another route, and when a new link would take another one. For hosts with several networks whose
    /// routes say which is better.
    case move
}
