/// A header of type, serial and length, four bytes each, big-endian, with nothing else around the body: the commonest
/// layout of all, read without asking for every frame what it has.
struct PlainHeader {
    private static let size = 12

    private let lengths: ClosedRange<UInt64>
    private let limits: LayoutPlan.Limits
    private let lengthOfEmpty: Int
    private let roles: Roles
    private let isServerSide: Bool

    /// `nil` where frames to decode have another header, or are told apart by more than their types.
    @inline(__always)
    init?(of layout: borrowing FrameLayout) {
        guard layout.inbound.isPlain, layout.marks == nil else { return nil }
        limits = layout.inboundLimits
        lengths = limits.lengths
        lengthOfEmpty = layout.inbound.lengthOfEmpty
        roles = layout.roles
        isServerSide = layout.isServerSide
    }

    /// As `FrameLayout.decode`.
    @inline(__always)
    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let length = input.integer(at: 8, as: UInt32.self) else { return nil }
        guard lengths.contains(UInt64(length)) else { throw limits.illegalLength(UInt64(length), lengthOfEmpty) }
        let bodySize = Int(length) &- lengthOfEmpty
        guard input.count &- Self.size >= bodySize else {
            input.await(Self.size + bodySize)
            return nil
        }
        guard
            let type = input.readInteger(as: UInt32.self),
            let serial = input.readInteger(as: UInt32.self),
            input.skip(4),
            let body = input.readBytes(bodySize)
        else { return nil }
        return Frame(roles.kind(ofType: type, isServerSide), type: type, serial: SerialNumber(serial), body: body)
    }
}

extension FrameLayout {
    /// Decodes every complete frame of `input` into `frames`. Throws as `decode(_:)` does.
    public mutating func decodeAll(_ input: inout ReceiveBuffer, into frames: inout [Frame]) throws(FrameError) {
        let plain = PlainHeader(of: self)
        while !input.isEmpty {
            let frame = if let plain { try plain.decode(&input) } else { try decode(&input) }
            guard let frame else { return }
            input.stopAwaiting()
            frames.append(frame)
        }
    }
}
