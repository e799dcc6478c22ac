import TrunklineCore

extension Client {
    /// Everything that the server pushes from now on.
    ///
    /// The stream listens from this call on, also before it is iterated, and outlives reconnects; it ends when the
    /// client is closed. It connects if there is no link. It does not keep the client alive.
    public nonisolated func pushes(buffering: PushBuffering = PushBuffering()) -> PushStream {
        subscribe(nil, buffering)
    }

    /// The pushes of type `type` from now on; otherwise as `pushes(buffering:)`.
    public nonisolated func pushes(
        ofType type: UInt32,
        buffering: PushBuffering = PushBuffering()
    ) -> PushStream {
        subscribe(type...type, buffering)
    }

    /// The pushes whose type is in `types` from now on; otherwise as `pushes(buffering:)`.
    public nonisolated func pushes(
        ofTypes types: ClosedRange<UInt32>,
        buffering: PushBuffering = PushBuffering()
    ) -> PushStream {
        subscribe(types, buffering)
    }

    private nonisolated func subscribe(_ types: ClosedRange<UInt32>?, _ buffering: PushBuffering) -> PushStream {
        let channel = PushChannel(types: types, buffer: buffering.buffer, mailbox: mailbox)
        mailbox.post(.subscribe(channel))
        return PushStream(channel)
    }
}
