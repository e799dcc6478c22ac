/// An actor whose executor is an event loop.
///
/// A check of exclusive access by the runtime takes about 90 instructions, so most of what a batch changes is in
/// `Dispatcher`, which is entered once for each batch, and in `Link.State`, which counts its accesses itself.
/// Code of the user that the loop calls in between cannot corrupt memory: if it enters the actor with `assumeIsolated`
/// and uses what is being changed, the program ends. A few properties, and the value of a `Lock`, are not checked in
/// release builds (`@exclusivity(unchecked)`): see their comments.
package protocol LoopActor: Actor {
    nonisolated var loop: any EventLoop { get }
}

extension LoopActor {
    /// Calls `body` at once. Call this on the actor's loop; anywhere else, the program ends. It is `assumeIsolated`
    /// with the check made by the loop: with that of the runtime, a turn with one request took 34,600 instructions
    /// instead of 25,100. The argument keeps `body` free of captures, which would have to be allocated.
    ///
    /// Safe: the loop is the only executor of the actor. It runs on one thread at a time, which `isCurrent` identifies,
    /// so on this thread the actor is isolated. The isolation of a synchronous function type does not change how the
    /// function is called. The result need not be `Sendable`, because the caller is on the loop too.
    @inline(__always)
    package nonisolated func onItsLoop<Argument, Result>(
        _ argument: inout Argument,
        _ body: @escaping (isolated Self, inout Argument) -> Result
    ) -> Result {
        precondition(loop.isCurrent, "not on the event loop of the actor")
        typealias Body = (Self, inout Argument) -> Result
        return unsafe unsafeBitCast(body, to: Body.self)(self, &argument)
    }

    /// Safe: as above.
    @inline(__always)
    package nonisolated func onItsLoop<Result>(_ body: @escaping (isolated Self) -> Result) -> Result {
        precondition(loop.isCurrent, "not on the event loop of the actor")
        typealias Body = (Self) -> Result
        return unsafe unsafeBitCast(body, to: Body.self)(self)
    }
}
