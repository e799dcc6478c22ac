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
        .roles {
            $0.ping = 1
            $0.pong = 2
            $0.push = .field("source", 7...9)
            $0.cancel = 3
            $0.part = .bit(0, of: "flags")
            $0.goAway = 8
            $0.retryAfter = .seconds(in: "wait")
            $0.closing = 8
            $0.failure = .bit(3, of: "flags")
            $0.requests = 0x10...0x7F
            $0.serials = 50...
        }
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
        .roles {
            $0.ping = 1
            $0.push = .types(0x100...0x1FF)
            $0.response = .bit(15)
            $0.part = .bit(13)
            $0.goAway = 0x200
            $0.retryAfter = .milliseconds(in: "wait")
            $0.closing = 0x200
            $0.failure = .bit(14)
            $0.requests = 0x100...0xFFF
            $0.serials = 2...
        }
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
        .roles {
            $0.ping = 1
            $0.cancel = 3
            $0.retryAfter = .seconds(in: "wait")
            $0.requests = 0x10...0x2F
        }
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
        .roles {
            $0.ping = 1
            $0.retryAfter = .seconds(in: "wait")
            $0.success = .statuses(200...299)
            $0.requests = 0x10...0xFF
            $0.serials = 9...
            $0.kind = { frame in
                switch frame["class"] {
                case 0: frame.kind
                case 1: .push
                case 2: .part
                case 3: .goAway
                default: nil
                }
            }
        }
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
        .roles {
            $0.push = .bit(7)
            $0.part = .field("left", 1...)
            $0.goAway = 2
            $0.failure = .bit(6)
            $0.requests = 0x10...0x1F
        }
        layout.maximumFrameSize = 1000
        return layout
    }()
}
