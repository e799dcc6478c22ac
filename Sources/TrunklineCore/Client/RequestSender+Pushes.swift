import Synchronization

extension RequestSender {
    /// Returns a stream of everything that the server pushes from now on.
    ///
    /// The stream receives pushes from this call on, even before it is iterated, and across reconnects. If there is no
    /// link, the client connects. The stream ends when the client is closed or deallocated; it does not keep the client
    /// alive. Each stream has its own buffer. See ``PushStream`` and <doc:StreamsUploadsAndPushes>.
    ///
    /// - Parameter buffering: How many pushes are buffered for a slow reader, and what happens beyond that.
    /// - Returns: The stream.
    public func pushes(buffering: PushBuffering = PushBuffering()) -> PushStream {
        pushes(.all, buffering: buffering)
    }

    /// Returns a stream of the pushes of one type.
    ///
    /// Otherwise it behaves like ``pushes(buffering:)``. A malformed push of this type appears as `.dropped`.
    ///
    /// - Parameters:
    ///   - type: The protocol's number for this type of push.
    ///   - buffering: How many pushes are buffered for a slow reader, and what happens beyond that.
    /// - Returns: The stream.
    public func pushes(
        ofType type: UInt32,
        buffering: PushBuffering = PushBuffering()
    ) -> PushStream {
        pushes(.ofType(type), buffering: buffering)
    }

    /// Returns a stream of the pushes for which a closure returns true.
    ///
    /// ```swift
    /// let prices = client.pushes(where: { (0x100...0x1FF).contains($0.type) })
    /// ```
    ///
    /// Otherwise it behaves like ``pushes(buffering:)``. The closure is not called for a malformed push, which
    /// appears as `.dropped` in every such stream. If a client needs more than a few such streams, use keys instead:
    /// ``pushes(forKey:buffering:)``.
    ///
    /// - Parameters:
    ///   - isWanted: Selects the pushes. Called once for each valid push, on the event loop, which also serves other
    ///     connections: it must be fast and must not block. If it enters the client with `assumeIsolated`, the program
    ///     may end.
    ///   - buffering: How many pushes are buffered for a slow reader, and what happens beyond that.
    /// - Returns: The stream.
    public func pushes(
        where isWanted: @escaping @Sendable (PushMessage) -> Bool,
        buffering: PushBuffering = PushBuffering()
    ) -> PushStream {
        pushes(.where(isWanted), buffering: buffering)
    }

    /// Returns a stream of the pushes with one key, which the codec reads from each push.
    ///
    /// The codec must conform to ``PushKeyCodec``. ``FrameLayout``, ``DelimitedCodec``, ``LengthPrefixedCodec`` and
    /// ``CountedPayloadCodec`` conform; their method `keyingPushes(by:)` sets how keys are read. With a codec whose
    /// pushes have no keys, the stream stays empty.
    ///
    /// Otherwise it behaves like ``pushes(buffering:)``. The key of a push is read only once, even if many
    /// streams use keys. A malformed push without a known key appears as `.dropped` in every such stream, after the
    /// pushes that were read from the socket together with it.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - buffering: How many pushes are buffered for a slow reader, and what happens beyond that.
    /// - Returns: The stream.
    public func pushes(
        forKey key: PushKey,
        buffering: PushBuffering = PushBuffering()
    ) -> PushStream {
        pushes(.forKey(key), buffering: buffering)
    }
}

extension Client {
    /// Returns a stream of the selected pushes.
    ///
    /// - Parameters:
    ///   - selection: The pushes that the stream receives.
    ///   - buffering: How many pushes are buffered for a slow reader, and what happens beyond that.
    /// - Returns: The stream.
    public nonisolated func pushes(_ selection: PushSelection, buffering: PushBuffering = PushBuffering()) -> PushStream
    {
        let channel = PushChannel(nextRequestID().number, selection, buffer: buffering.buffer, owner: commandQueue)
        commandQueue.post(.listen(channel))
        return PushStream(channel)
    }
}
