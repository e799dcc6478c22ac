/// A `FrameLayout` for one direction, made ready for use: every offset is known before the first frame arrives.
///
/// A frame is a header of fixed size, unless the length is a varint, the body, and a trailer of fixed size. A class, so that using it copies nothing.
final class LayoutPlan: Sendable {
    /// As they were declared, to print them.
    let fields: [Field]
    let direction: LayoutDraft.Direction
    /// What every frame's header and trailer start from: constants in place, zeros elsewhere.
    let header: [UInt8]
    let trailer: [UInt8]
    /// Ranges of `header` and `trailer` that a received frame must repeat to the byte.
    let headerConstants: [Range<Int>]
    let trailerConstants: [Range<Int>]

    let type: Slot?
    let serial: Slot?
    let status: Slot?
    let kind: KindSlot?
    let length: Slot
    /// The order of the length's bytes when it is a varint, whose least width it has in `header`; else `nil`.
    let varint: ByteOrder?
    /// Whether a varint counts its own bytes.
    let countsItself: Bool
    /// The length field of a frame without a body; less than zero when it counts less than the body.
    let lengthOfEmpty: Int
    let bodySizes: ClosedRange<UInt64>
    /// In the order of their names.
    let named: [NamedSlot]
    /// Those that are known as soon as the header is there, and those that are not.
    let earlyRepetitions: [Repetition]
    let lateRepetitions: [Repetition]
    let checksums: [ChecksumSlot]

    /// The bytes of a frame that are not body.
    let overhead: Int
    /// Whether anything can be wrong that only a complete frame shows.
    let hasLateChecks: Bool
    /// Whether the header is type, serial and length, four bytes each, big-endian, and there is nothing else: the commonest
    /// of all, which is read and written without asking what it has.
    let isPlain: Bool

    init(_ draft: LayoutDraft) {
        fields = draft.fields
        direction = draft.direction
        header = draft.header
        trailer = draft.trailer
        headerConstants = draft.headerConstants
        trailerConstants = draft.trailerConstants
        type = draft.type
        serial = draft.serial
        status = draft.status
        kind = draft.kind
        length = draft.length
        varint = draft.isVarint ? draft.length.order : nil
        countsItself = draft.countsItself
        lengthOfEmpty = draft.lengthOfEmpty
        bodySizes = draft.bodySizes
        named = draft.named.sorted { $0.name < $1.name }
        earlyRepetitions = draft.earlyRepetitions
        lateRepetitions = draft.lateRepetitions
        checksums = draft.checksums
        overhead = draft.overhead
        hasLateChecks = !draft.trailer.isEmpty || !draft.checksums.isEmpty
        isPlain =
            header.count == 12 && varint == nil && !hasLateChecks && type?.isPlain(at: 0) == true
            && serial?.isPlain(at: 4) == true
            && length.isPlain(at: 8)
    }

    /// The least that `Limits` takes.
    var smallestFrame: Int { overhead + max(0, -lengthOfEmpty, Int(bodySizes.lowerBound)) }
}

extension LayoutPlan {
    /// How long a frame may be.
    struct Limits: Sendable {
        /// How many bytes a whole frame may have.
        let frameSize: Int
        /// How many bytes a body may have.
        let bodySizes: ClosedRange<Int>
        /// The same as the length field says it.
        let lengths: ClosedRange<UInt64>
        /// What a body may not be longer for.
        let bound: Bound

        enum Bound: Sendable {
            case maximumFrameSize
            /// The length field, which holds at most so much.
            case lengthField(UInt64)
            /// The sizes of the field `body`.
            case bodySizes
        }

        /// Whole frames of up to `size` bytes, at least `smallestFrame`, or less if the length field ends sooner.
        init(wholeFrame size: Int, of plan: LayoutPlan) {
            // Far beyond any memory, and small enough that no sum below overflows.
            frameSize = min(size, 1 << 48)
            let countable = plan.varint == nil ? Int(min(plan.length.maximum, 1 << 48)) : 1 << 48
            let empty = plan.lengthOfEmpty
            let sizes = Int(min(plan.bodySizes.upperBound, 1 << 48))
            let most = min(frameSize - plan.overhead, countable - empty, sizes)
            bound =
                most == sizes
                ? .bodySizes : most == countable - empty ? .lengthField(plan.length.maximum) : .maximumFrameSize
            bodySizes = max(0, -empty, Int(plan.bodySizes.lowerBound))...most
            // A varint that counts itself says up to nine more, for the bytes that it has more than one.
            let longest = bodySizes.upperBound + empty + (plan.countsItself ? 9 : 0)
            lengths = UInt64(bodySizes.lowerBound + empty)...UInt64(longest)
        }
    }
}
