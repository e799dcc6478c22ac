// Some roles contradict each other in ways that no rule about two of them describes: the types of parts are not among
// the types of responses, say. So a frame of each role is encoded and decoded when the roles are declared. Otherwise it
// would be a call that fails.

extension FrameLayout {
    /// A frame that has a role.
    private struct Sample {
        let role: String
        var frame: Frame
        var isFromServer = true
        /// The kind that the other side must read.
        let kind: Frame.Kind
    }

    /// Throws if a frame of a declared role cannot be sent, or if the other side would read it as something else.
    func checkSamples() throws(LayoutError) {
        for sample in samplesWithTypes + samplesWithMarks { try check(sample) }
    }

    private func check(_ sample: Sample) throws(LayoutError) {
        let (sender, receiver) = (seen(byServer: sample.isFromServer), seen(byServer: !sample.isFromServer))
        var (frame, output) = (sample.frame, SendBuffer())
        let sizes = sender.outbound.shape.bodySizes
        let size = sample.kind == .response ? max(1, sizes.lowerBound) : sizes.lowerBound
        // The sizes of frames are not a matter of roles.
        guard size <= min(sizes.upperBound, 1 << 16) else { return }
        if sample.isFromServer { frame.status = sender.successStatus }
        if frame.body.isEmpty { frame.body = Bytes([UInt8](repeating: 0, count: Int(size))) }
        do throws(FrameError) {
            try sender.encode(frame, into: &output)
            // The closure decides what the client receives.
            if sample.isFromServer, declared.kind != nil { return }
            var input = ReceiveBuffer(output.bytes)
            guard let read = try receiver.decode(&input) else { return }
            guard read.kind != sample.kind || read.isErrorResponse != frame.isErrorResponse else { return }
            let found = read.isErrorResponse ? "error response" : "\(read.kind)"
            throw FrameError(
                .unknownType,
                "one of type \(hexadecimal(frame.type)) would be read as a frame of the kind \(found)"
            )
        } catch {
            if error.code == .illegalLength { return }
            throw LayoutError(role: sample.role, "its frames cannot be sent: \(error.message)")
        }
    }

    /// Frames that have their role by their type.
    private var samplesWithTypes: [Sample] {
        let client = seen(byServer: false)
        let serial = roles.serials.lowerBound
        var samples: [Sample] = []
        if roles.ping != nil, let ping = client.ping(number: 0), let pong = client.pong(answering: ping) {
            samples.append(Sample(role: "ping", frame: ping, isFromServer: false, kind: .ping))
            samples.append(Sample(role: "pong", frame: pong, kind: pongsLookLikePings ? .ping : .pong))
        }
        if let cancel = client.cancelFrame(for: serial, type: 0) {
            samples.append(Sample(role: "cancel", frame: cancel, isFromServer: false, kind: .cancel))
        }
        if let closing = client.closingFrame() {
            samples.append(Sample(role: "closing", frame: closing, isFromServer: false, kind: .request))
        }
        if let window = roles.window {
            let frame = Frame(.request, type: window, serial: serial)
            samples.append(Sample(role: "window", frame: frame, isFromServer: false, kind: .request))
        }
        for (role, kind, mark) in [
            ("push", Frame.Kind.push, declared.push), ("part", .part, declared.part),
            ("goAway", .goAway, declared.goAway),
        ] {
            guard let types = mark?.types else { continue }
            let highest = min(types.upperBound, response.shape.type?.maximum ?? 0)
            for type in Set([types.lowerBound, highest]).map(UInt32.init) where type & roles.typeBits == 0 {
                samples.append(Sample(role: role, frame: Frame(kind, type: type, serial: serial), kind: kind))
            }
        }
        return samples
    }

    /// Frames that have their role by a mark or because they have no other. Their type has no role of its own.
    private var samplesWithMarks: [Sample] {
        let serial = roles.serials.lowerBound
        var samples: [Sample] = []
        if roles.requests != nil, let type = freeType(isResponse: false) {
            let frame = Frame(.request, type: type, serial: serial)
            samples.append(Sample(role: "requests", frame: frame, isFromServer: false, kind: .request))
        }
        let marks: [(String, Role?, Frame.Kind)] = [
            ("response", declared.response, .response), ("part", declared.part, .part),
            ("failure", declared.failure, .response), ("push", declared.push, .push),
            ("goAway", declared.goAway, .goAway),
        ]
        for (role, mark, kind) in marks {
            guard let mark, mark.types == nil || kind == .response else { continue }
            let isFailure = role == "failure"
            let own = isFailure ? mark.types.map { UInt32($0.lowerBound) } : nil
            guard let type = own ?? freeType(isResponse: kind == .response || kind == .part) else { continue }
            let frame = Frame(kind, type: type, serial: serial, isErrorResponse: isFailure)
            samples.append(Sample(role: role, frame: frame, kind: kind))
        }
        return samples
    }

    /// Returns the lowest type without a role of its own, or `nil` if there is none.
    private func freeType(isResponse: Bool) -> UInt32? {
        guard let slot = isResponse ? response.shape.type : request.shape.type else { return 0 }
        let numbers = [roles.ping, roles.pong, roles.cancel, roles.window, roles.closing, declared.heartbeat?.type]
        var taken = numbers.compactMap { $0.map { UInt64($0)...UInt64($0) } }
        taken += [declared.push, declared.part, declared.goAway, declared.failure].compactMap { $0?.types }
        var bounds = [0...slot.maximum]
        if let requests = roles.requests { bounds.append(UInt64(requests.lowerBound)...UInt64(requests.upperBound)) }
        if let types = declared.response?.types {
            if !isResponse {
                taken.append(types)
            } else if bounds.allSatisfy(types.overlaps) {
                bounds.append(types)
            } else {
                return UInt32(types.lowerBound)
            }
        }
        let candidates = bounds.map(\.lowerBound) + taken.map { $0.upperBound &+ 1 }
        return candidates.filter { number in
            bounds.allSatisfy { $0.contains(number) } && !taken.contains { $0.contains(number) }
                && number & UInt64(roles.typeBits) == 0
        }
        .min().map(UInt32.init)
    }
}
