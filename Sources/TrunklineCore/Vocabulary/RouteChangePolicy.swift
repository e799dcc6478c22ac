/// The client's action on a link when its route changes, or when the machine wakes from sleep.
@nonexhaustive
public enum RouteChangePolicy: Sendable, Hashable {
    /// The client does nothing. The heartbeat detects a dead link within `liveness.interval` + `liveness.deadline` (40
    /// s by default).
    case ignore
    /// The client sends a ping at once, so that a dead link is detected within `liveness.deadline` (10 s by default).
    /// It sends the ping if packets of the link take another route or have no route, and after sleep. If the server
    /// answers, the link stays. This needs a codec with a ping and `liveness.heartbeat` `.pingPong`; without them it
    /// has the same effect as `ignore`.
    case probe
    /// The client sends a ping as with `probe`. In addition, if packets of the link take another route, or if a new
    /// link would take another route, a planned change replaces the link by another one to the same endpoint. Use this
    /// on hosts with several networks whose routes say which network is better.
    case move
}
