/// An actor whose executor is an event loop.
///
/// ### Exclusive access
///
/// The runtime checks that nothing uses a property of an object while it is being changed. A check takes about 80
/// instructions, and in a turn with one request they were a third of all instructions. The properties that a request
/// uses most are therefore marked `@exclusivity(unchecked)`.
///
/// Safe: such a property is used only on the loop's thread. While it is being changed, only methods of its own value
/// run, and nothing that they call (a transport, a continuation, or code of the user in a codec or a reconnect policy)
/// uses the same property. The documentation of `FrameCodec` and `ReconnectPolicy` demands this. The checks remain in
/// debug builds, in which all tests run.
protocol LoopActor: Actor {
    nonisolated var loop: any EventLoop { get }
}

extension LoopActor {
    /// Calls `body` at once. Call this on the actor's loop; anywhere else, the program ends.
    ///
    /// This does what `assumeIsolated` does, in the same way, but the loop makes the check. In a turn with one request,
    /// the runtime's checks took a tenth of the instructions. The argument keeps `body` free of captures, which would
    /// have to be allocated.
    ///
    /// Safe: the loop is the only executor of the actor. It runs on one thread at a time, which `isCurrent` identifies, so
    /// on this thread the actor is isolated. The isolation of a synchronous function type does not change how the
    /// function is called. The result need not be `Sendable`, because the caller is on the loop too.
    @inline(__always)
    nonisolated func onItsLoop<Argument, Result>(
        _ argument: inout Argument,
        _ body: @escaping (isolated Self, inout Argument) -> Result
    ) -> Result {
        precondition(loop.isCurrent, "not on the event loop of the actor")
        typealias Body = (Self, inout Argument) -> Result
        return unsafe unsafeBitCast(body, to: Body.self)(self, &argument)
    }

    /// Calls `body` at once, as above.
    @inline(__always)
    nonisolated func onItsLoop<First, Second, Value, Result>(
        _ first: inout First,
        _ second: inout Second,
        _ value: Value,
        _ body: @escaping (isolated Self, inout First, inout Second, Value) -> Result
    ) -> Result {
        precondition(loop.isCurrent, "not on the event loop of the actor")
        typealias Body = (Self, inout First, inout Second, Value) -> Result
        return unsafe unsafeBitCast(body, to: Body.self)(self, &first, &second, value)
    }

    /// Calls `body` at once, as above.
    @inline(__always)
    nonisolated func onItsLoop<Argument, Value, Result>(
        _ argument: inout Argument,
        _ value: Value,
        _ body: @escaping (isolated Self, inout Argument, Value) -> Result
    ) -> Result {
        precondition(loop.isCurrent, "not on the event loop of the actor")
        typealias Body = (Self, inout Argument, Value) -> Result
        return unsafe unsafeBitCast(body, to: Body.self)(self, &argument, value)
    }

    /// Calls `body` at once, as above.
    @inline(__always)
    nonisolated func onItsLoop<Result>(_ body: @escaping (isolated Self) -> Result) -> Result {
        precondition(loop.isCurrent, "not on the event loop of the actor")
        typealias Body = (Self) -> Result
        return unsafe unsafeBitCast(body, to: Body.self)(self)
    }
}
