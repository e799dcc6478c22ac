extension SecuredTransport {
    package func write(_ pieces: BytePieces) -> WriteOutcome {
        switch phase {
        case .connecting, .handshaking: return .wouldBlock
        case .failed(let error): return .failed(error)
        case .open: break
        }
        if !engine.outgoing.isEmpty { flush() }
        if let writeFailure { return .failed(writeFailure) }
        hasSent = false
        var taken = 0
        var gathered: [UInt8] = []
        do throws(TransportError) {
            for unsafe(index, piece) in unsafe pieces.enumerated() {
                var rest = unsafe piece[...]
                while unsafe !rest.isEmpty {
                    if engine.outgoing.count + gathered.count >= Self.outputSize {
                        guard try encrypt(&gathered) else { return wrote(taken - gathered.count) }
                        flush()
                        if !engine.outgoing.isEmpty { return wrote(taken) }
                    }
                    // Few records: small pieces share one. A piece that fills records alone is not copied.
                    let isWhole = unsafe rest.count >= Self.recordSize || index == pieces.count - 1
                    if gathered.isEmpty, isWhole {
                        let part = unsafe rest.prefix(Self.outputSize)
                        guard try unsafe encrypt(UnsafeRawBufferPointer(rebasing: part)) else { return wrote(taken) }
                        unsafe rest = unsafe rest.dropFirst(part.count)
                        unsafe taken += part.count
                    } else {
                        let part = unsafe rest.prefix(Self.recordSize - gathered.count)
                        unsafe gathered.append(contentsOf: part)
                        unsafe rest = unsafe rest.dropFirst(part.count)
                        unsafe taken += part.count
                        if gathered.count == Self.recordSize {
                            guard try encrypt(&gathered) else { return wrote(taken - gathered.count) }
                        }
                    }
                }
            }
            guard try encrypt(&gathered) else { return wrote(taken - gathered.count) }
        } catch {
            // What was encrypted before may be on its way, so it counts as taken, and goes out. The next call fails.
            phase = .failed(error)
            let encrypted = taken - gathered.count
            guard encrypted > 0 else { return .failed(error) }
            flush()
            return wrote(encrypted)
        }
        flush()
        return wrote(taken)
    }

    private func wrote(_ taken: Int) -> WriteOutcome {
        // If nothing was sent on a lost link, the bytes do not count as taken: they may be sent elsewhere.
        if let writeFailure, !hasSent || taken == 0 { return .failed(writeFailure) }
        return taken > 0 ? .bytes(taken) : .wouldBlock
    }

    private func encrypt(_ bytes: inout [UInt8]) throws(TransportError) -> Bool {
        guard !bytes.isEmpty else { return true }
        let isTaken = try unsafe bytes.span.bytes.withUnsafeBytes { memory throws(TransportError) in
            try unsafe encrypt(memory)
        }
        if isTaken { bytes.removeAll(keepingCapacity: true) }
        return isTaken
    }

    /// If it throws, nothing was encrypted.
    private func encrypt(_ memory: UnsafeRawBufferPointer) throws(TransportError) -> Bool {
        let before = engine.outgoing.count
        do throws(TransportError) {
            isHeldUp = try unsafe !engine.write(memory)
            return !isHeldUp
        } catch {
            engine.outgoing.truncate(to: before)
            throw error
        }
    }

    func flush() {
        defer { updateInterest() }
        while !engine.outgoing.isEmpty, writeFailure == nil {
            switch unsafe engine.outgoing.withUnwritten({ unsafe socket?.write($0) ?? .wouldBlock }) {
            case .bytes(let count):
                hasSent = true
                sentMark += count
            case .wouldBlock: return
            case .failed(let error): writeFailure = error
            }
        }
        engine.releaseMemory()
        if isFinishing { socket?.finishWriting() }
        if isChoked, !hasTooMuchToSend {
            isChoked = false
            socket?.isReading = isReading
            if isReading, hasNews { wake() }
        }
    }
}
