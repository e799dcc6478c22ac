extension FrameLayout: FrameCodec {
    /// By serial where the layout has a serial field, otherwise in order.
    public var matching: ResponseMatching { inbound.serial == nil ? .inOrder : .serial(roles.serials) }

    /// A frame of the role `cancel`; `nil` when the layout has no such role or no serial field.
    public func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
        guard let cancel = roles.cancel, outbound.serial != nil else { return nil }
        return Frame(.cancel, type: cancel, serial: serial)
    }

    /// The same layout as the server sees it: decodes requests and encodes responses.
    public func serverSide() -> any FrameCodec {
        if isServerSide { return self }
        var layout = self
        swap(&layout.inbound, &layout.outbound)
        layout.isServerSide = true
        return layout
    }

    /// Takes one frame from the front of `input`; `nil`, with nothing taken, when it is not complete.
    ///
    /// Throws `illegalLength`, `unexpectedBytes`, `checksumMismatch` or `repetitionMismatch`; the first two as soon as
    /// the bytes at fault are there.
    public func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        let headerSize = inbound.header.count
        guard input.count >= headerSize else {
            if let size = try inbound.checkStart(of: input) { input.await(size) }
            return nil
        }
        var frame = Frame(isServerSide ? .request : .response)
        let bodySize = try inbound.read(input, into: &frame)
        guard input.count >= inbound.overhead &+ bodySize else {
            input.await(inbound.overhead + bodySize)
            return nil
        }
        classify(&frame)
        input.skip(headerSize)
        guard let body = input.readBytes(bodySize) else { return nil }
        frame.body = body
        input.skip(inbound.trailer.count)
        return frame
    }

    /// Decides what the frame is for, from its type and status.
    @inline(__always)
    private func classify(_ frame: inout Frame) {
        if frame.type == roles.ping {
            frame.kind = .ping
        } else if frame.type == roles.cancel {
            frame.kind = .cancel
        } else if !isServerSide {
            if let push = roles.push, push.contains(frame.type) {
                frame.kind = .push
            } else {
                frame.isRejection = inbound.status != nil && !roles.success.contains(frame.status)
            }
        }
    }
}
