extension SecuredTransport {
    package func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome {
        switch phase {
        case .connecting, .handshaking: return .wouldBlock
        case .failed(let error): return .failed(error)
        case .open: break
        }
        if let ending { return ending }
        var total = 0
        var outcome: ReadOutcome?
        var share = SocketShare()
        while outcome == nil, total < buffer.count {
            let free = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[total...])
            switch unsafe decrypt(into: free, &share) {
            case .bytes(let count): total += count
            case .needsInput: outcome = .wouldBlock
            case .end: outcome = .end
            case .failed(let error): outcome = .failed(error)
            }
            // The engine has decrypted its maximum of records at once. `wake` schedules the rest.
            if !left.isEmpty { break }
        }
        // The peer may have requested something, such as new keys.
        if !engine.outgoing.isEmpty { flush() }
        if isHeldUp {
            isHeldUp = false
            updateInterest()
        }
        engine.releaseMemory()
        if let outcome, outcome != .wouldBlock { ending = outcome }
        // If there is too much to send, `flush` wakes the owner once there is less.
        let mayHoldMore = share.readings == 0 && !share.isSocketEmpty
        if !isChoked, mayHoldMore || hasNews && (total > 0 || !left.isEmpty) { wake() }
        hasMore = !isChoked && (hasNews || mayHoldMore)
        return total > 0 ? .bytes(total) : outcome ?? .wouldBlock
    }

    private struct SocketShare {
        var readings = SecuredTransport.readings
        var isSocketEmpty = false
    }

    private func decrypt(
        into buffer: UnsafeMutableRawBufferPointer,
        _ share: inout SocketShare
    ) -> TLSReadOutcome {
        guard !hasTooMuchToSend else {
            isChoked = true
            socket?.isReading = false
            return .needsInput
        }
        if !left.isEmpty || engine.hasMore {
            let outcome = try? unsafe feed { input throws(TransportError) in unsafe engine.read(&input, into: buffer) }
            if let outcome, !outcome.needsInput { return outcome }
            if !left.isEmpty { return .needsInput }
        }
        // No more than fits: decrypted bytes are never longer than encrypted ones.
        let size = min(Self.inputSize, max(buffer.count, 4096))
        return unsafe withUnsafeTemporaryAllocation(byteCount: size, alignment: 8) { memory in
            // Again after part of a record, or one without data. Bounded: a socket with more to read reports it again.
            while share.readings > 0 {
                share.readings -= 1
                switch unsafe socket?.read(into: memory) ?? .end {
                case .bytes(let count):
                    receivedCount &+= count
                    var input = unsafe UnsafeRawBufferPointer(rebasing: memory[..<count])
                    let outcome = unsafe engine.read(&input, into: buffer)
                    if unsafe !input.isEmpty { unsafe left.append(contentsOf: input) }
                    if !outcome.needsInput || !left.isEmpty { return outcome }
                case .wouldBlock:
                    share.isSocketEmpty = true
                    return .needsInput
                case .end:
                    var message =
                        "the connection was cut off: it ended without a TLS close_notify, so bytes may be missing"
                    if engine.hasRefusedRenegotiation { message += "; \(String.refusedRenegotiation)" }
                    return .failed(TransportError(.tls(.truncated), message))
                case .failed(let error): return .failed(error)
                }
            }
            return .needsInput
        }
    }
}

extension TLSReadOutcome {
    fileprivate var needsInput: Bool { if case .needsInput = self { true } else { false } }
}
