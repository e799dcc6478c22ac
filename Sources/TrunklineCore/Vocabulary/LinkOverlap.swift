/// Whether a client may have two links at a time.
@nonexhaustive
public enum LinkOverlap: Sendable, Hashable {
    /// In a planned change the next link becomes ready, with its handshake done and its subscriptions restored, before
    /// the present link drains.
    ///
    /// No request waits for the change. If it fails, the present link stays. Meanwhile pushes may come on both links,
    /// each with the session number of its link (``PushMessage/session``). An attempt does not wait for draining links.
    case allowed
    /// An attempt begins only when no other link exists.
    ///
    /// In a planned change the present link drains at once: requests in flight on it have at most
    /// `failover.drainTimeout` to finish. Then the link is closed, and the next attempt begins. Requests wait within
    /// their deadlines. If the attempt fails, there is no link. Use this for servers that refuse a second link of the
    /// same client, or that must not send a push twice.
    case never
}
