/// Whether two links of a client may exist at a time.
@nonexhaustive
public enum LinkOverlap: Sendable, Hashable {
    /// In a planned change the next link is ready, its handshake done and its subscriptions restored, before the present one
    /// drains. No request waits for the change; if it fails, the present link stays. Meanwhile pushes may come on both links,
    /// each with the session number of its link (`PushMessage.session`). A draining link does not hold up an attempt.
    case allowed
    /// An attempt begins only when no other link exists. In a planned change the present link drains at once: its last responses
    /// come (for `failover.drainTimeout` at most), it is closed, and then the next attempt begins. Requests wait, within their
    /// deadlines; if the attempt fails, there is no link. For servers that refuse a second link of the same client, or that
    /// must not push anything twice.
    case never
}
