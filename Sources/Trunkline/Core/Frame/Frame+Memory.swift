/// For those who keep frames for long: what they hold in memory, and keeping no more than they need.
extension Frame {
    /// How many bytes the body and the named bytes (`head`, for one) are, for limits; the body alone where there are no fields.
    @inlinable
    package var byteCount: Int { fields.isEmpty ? body.count : body.count + namedByteCount }

    @usableFromInline
    package var namedByteCount: Int {
        fields.reduce(0) { sum, field in
            if case .bytes(let bytes) = field.value { sum + bytes.count } else { sum }
        }
    }

    /// How many bytes the body and the fields are.
    package var contentSize: Int {
        fields.reduce(body.count) { sum, field in
            guard case .bytes(let bytes) = field.value else { return sum + field.name.utf8.count }
            return sum + field.name.utf8.count + bytes.count
        }
    }

    /// The same frame, which keeps no memory alive that is much larger than `contentSize`.
    package var compacted: Frame {
        var frame = self
        frame.body = body.compacted
        for index in fields.indices {
            if case .bytes(let bytes) = fields[index].value { frame.fields[index].value = .bytes(bytes.compacted) }
        }
        return frame
    }
}

extension Bytes {
    /// How many bytes of memory are kept alive by these. Not to be acted on but by `compacted`: how much an array takes
    /// for as many bytes differs from run to run.
    package var heldBytes: Int { storage.capacity }

    /// The same bytes; a copy of them where they are a part of something larger.
    package var compacted: Bytes { heldBytes <= count + count / 8 + 64 ? self : Bytes(Array(self)) }
}
