package struct DescriptorPair: Hashable, Sendable, CustomStringConvertible {
    let reading: Int32
    let writing: Int32
    /// Closes the descriptors, unless a link has taken them.
    let owner: any AnyObject & Sendable

    init(reading: Int32, writing: Int32, owner: any AnyObject & Sendable) {
        (self.reading, self.writing, self.owner) = (reading, writing, owner)
    }

    package static func == (a: DescriptorPair, b: DescriptorPair) -> Bool { a.owner === b.owner }

    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(owner)) }

    package var description: String {
        reading == writing ? "descriptors(\(reading))" : "descriptors(\(reading), \(writing))"
    }
}
