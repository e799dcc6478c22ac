import Synchronization

extension Client {
    /// Everything that the server pushes from now on.
    ///
    /// The stream listens from this call on, also before it is iterated, and outlives reconnects; it ends when the
    /// client is closed. It connects if there is no link. It does not keep the client alive.
    public nonisolated func pushes(buffering: PushBuffering = PushBuffering()) -> PushStream {
        stream(.all, buffering)
    }

    /// The pushes of type `type` from now on; otherwise as `pushes(buffering:)`.
    public nonisolated func pushes(
        ofType type: UInt32,
        buffering: PushBuffering = PushBuffering()
    ) -> PushStream {
        stream(.type(type), buffering)
    }

    /// The pushes for which `isWanted` returns true from now on; otherwise as `pushes(buffering:)`.
    ///
    /// ```swift
    /// let prices = client.pushes(where: { (0x100...0x1FF).contains($0.type) })
    /// ```
    ///
    /// `isWanted` is called once for every push, on the event loop, which serves other connections too: it must be quick
    /// and must not block. With more than a few such streams, give the pushes keys instead: `pushes(forKey:buffering:)`.
    /// It is not asked about a malformed push, which is an element `.dropped` in every such
    /// stream.
    public nonisolated func pushes(
        where isWanted: @escaping @Sendable (PushMessage) -> Bool,
        buffering: PushBuffering = PushBuffering()
    ) -> PushStream {
        stream(.matching(isWanted), buffering)
    }

    /// The pushes whose key, as the codec reads it (`PushKeyCodec.pushKey(of:)`), is `key` from now on; otherwise as
    /// `pushes(buffering:)`.
    ///
    /// `FrameLayout`, `DelimitedCodec`, `LengthPrefixedCodec` and `CountedPayloadCodec` have `keyingPushes(by:)` for that;
    /// with a codec whose pushes have no keys the stream remains empty. A push is looked up by its key once, however
    /// many keys are listened to. A malformed push of which no key is known is an element
    /// `.dropped` in every such stream, behind what was read from the socket together with it.
    public nonisolated func pushes(
        forKey key: PushKey,
        buffering: PushBuffering = PushBuffering()
    ) -> PushStream {
        stream(.key(key), buffering)
    }

    private nonisolated func stream(_ selection: PushChannel.Selection, _ buffering: PushBuffering) -> PushStream {
        let number = nextRequestID()
        let channel = PushChannel(number, selection, buffer: buffering.buffer, commandQueue: commandQueue)
        commandQueue.post(.listen(channel))
        return PushStream(channel)
    }
}
