package import Trunkline

/// Layouts in which more than a type determines the kind of a frame. Together they have every role and every mark.
package enum MarkedLayouts {
    /// Bits and numbers of named fields.
    package static let fields: FrameLayout = {
        var layout = FrameLayout {
            Field.type(UInt8.self)
            Field.serial(UInt16.self, order: .littleEndian)
            Field.integer("flags", UInt8.self)
            Field.integer("source", UInt8.self)
            Field.integer("wait", UInt16.self)
            Field.length(UInt16.self, counting: .rest)
            Field.body
        }
        .roles(
            ping: 1,
            pong: 2,
            push: .field("source", 7...9),
            cancel: 3,
            part: .bit(0, of: "flags"),
            goAway: 8,
            retryAfter: .seconds(in: "wait"),
            closing: 8,
            failure: .bit(3, of: "flags"),
            requests: 0x10...0x7F,
            serials: 50...
        )
        layout.maximumFrameSize = 1000
        return layout
    }()

    /// Bits of the type, behind a length of varying width.
    package static let typeBits: FrameLayout = {
        var layout = FrameLayout {
            Field.varintLength(counting: .wholeFrame)
            Field.type(UInt16.self)
            Field.serial(width: 3)
            Field.integer("wait", UInt32.self)
            Field.body
            Field.checksum(.adler32, over: .headerAndBody)
        }
        .roles(
            ping: 1,
            push: .types(0x100...0x1FF),
            response: .bit(15),
            part: .bit(13),
            goAway: 0x200,
            retryAfter: .milliseconds(in: "wait"),
            closing: 0x200,
            failure: .bit(14),
            requests: 0x100...0xFFF,
            serials: 2...
        )
        .requiringBody(inResponsesTo: 0x300...0x3FF)
        layout.maximumFrameSize = 1000
        return layout
    }()

    /// A number for every kind.
    package static let kinds: FrameLayout = {
        let numbers: [Frame.Kind: UInt64] = [
            .request: 1, .response: 2, .part: 3, .push: 4, .ping: 5, .pong: 6, .cancel: 7, .goAway: 8,
        ]
        var layout = FrameLayout {
            Field.constant([0xAB])
            Field.varintLength(counting: .rest, order: .bigEndian)
            Field.kind(UInt16.self, numbers, order: .littleEndian)
            Field.type(UInt8.self)
            Field.serial(UInt32.self)
            Field.status(UInt8.self)
            Field.integer("wait", UInt8.self)
            Field.body
            Field.type(UInt8.self)
        }
        .requiringBody(inResponsesTo: 0x20...0x2F)
        .roles(ping: 1, cancel: 3, retryAfter: .seconds(in: "wait"), requests: 0x10...0x2F)
        layout.maximumFrameSize = 1000
        return layout
    }()

    /// A closure, in a layout whose requests and responses have different fields.
    package static let closure: FrameLayout = {
        var layout = FrameLayout {
            Field.constant(request: [0x3F], response: [0x21])
            Field.type(UInt8.self)
            Field.serial(UInt8.self)
            Field.length(UInt16.self, counting: .body)
            Field.body
        } response: {
            Field.constant(request: [0x3F], response: [0x21])
            Field.serial(UInt8.self)
            Field.status(UInt16.self)
            Field.length(width: 3, counting: .wholeFrame.plus(1), order: .littleEndian)
            Field.integer("class", UInt8.self)
            Field.integer("wait", UInt64.self)
            Field.bytes("token", 2)
            Field.type(UInt16.self)
            Field.body
            Field.checksum(.crc32, over: .body)
        }
        .roles(
            ping: 1,
            retryAfter: .seconds(in: "wait"),
            success: 200...299,
            requests: 0x10...0xFF,
            serials: 9...,
            kind: { frame in
                switch frame["class"] {
                case 0: frame.kind
                case 1: .push
                case 2: .part
                case 3: .goAway
                default: nil
                }
            }
        )
        layout.maximumFrameSize = 1000
        return layout
    }()

    /// No serials: an unknown frame cannot be distinguished from a response.
    package static let inOrder: FrameLayout = {
        var layout = FrameLayout {
            Field.type(UInt8.self)
            Field.integer("left", UInt16.self)
            Field.varintLength(counting: .body)
            Field.body(sizes: 2...)
        }
        .roles(push: .bit(7), part: .field("left", 1...), goAway: 2, failure: .bit(6), requests: 0x10...0x1F)
        layout.maximumFrameSize = 1000
        return layout
    }()
}
