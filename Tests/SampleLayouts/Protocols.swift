package import Trunkline

/// Real protocols, each described by a layout alone.
package enum Protocols {
    /// memcached's binary protocol (BinaryProtocolRevamped): magic, opaque as serial, a status in responses only.
    package static let memcached = FrameLayout {
        Field.kind(UInt8.self, [.request: 0x80, .response: 0x81])
        Field.type(UInt8.self)
        Field.integer("keyLength", UInt16.self)
        Field.integer("extrasLength", UInt8.self)
        Field.integer("dataType", UInt8.self)
        Field.integer("vbucket", UInt16.self)
        Field.length(UInt32.self, counting: .body)
        Field.serial(UInt32.self)
        Field.integer("cas", UInt64.self)
        Field.body
    } response: {
        Field.kind(UInt8.self, [.request: 0x80, .response: 0x81])
        Field.type(UInt8.self)
        Field.integer("keyLength", UInt16.self)
        Field.integer("extrasLength", UInt8.self)
        Field.integer("dataType", UInt8.self)
        Field.status(UInt16.self)
        Field.length(UInt32.self, counting: .body)
        Field.serial(UInt32.self)
        Field.integer("cas", UInt64.self)
        Field.body
    }
    .roles { $0.ping = 0x0a }

    /// Modbus/TCP (Messaging on TCP/IP Implementation Guide V1.0b, section 3.1.3): the function code is the type. Its
    /// top bit marks an exception, whose code is the first byte of the body.
    package static let modbus: FrameLayout = {
        var layout = FrameLayout {
            Field.serial(UInt16.self)
            Field.constant([0, 0])
            Field.length(UInt16.self, counting: .rest)
            Field.integer("unit", UInt8.self, default: 0xFF)
            Field.type(UInt8.self)
            Field.body
        }
        .roles {
            $0.failure = .bit(7)
            $0.failureCode = .body(UInt8.self)
            $0.serials = 0...
            $0.responsesRepeat = [.type, .field("unit")]
        }
        layout.maximumFrameSize = 260
        return layout
    }()

    /// DNS over TCP (RFC 1035, sections 4.1.1 and 4.2.2): the body has at least four counts. The low four bits of the
    /// flags are the result code.
    package static let dns = FrameLayout {
        Field.length(UInt16.self, counting: .rest)
        Field.serial(UInt16.self)
        Field.integer("flags", UInt16.self, default: 0x0100)
        Field.body(sizes: 8...)
    }
    .roles {
        $0.heartbeat = Frame(.request, body: rootQuestion)
        $0.response = .bit(15, of: "flags")
        $0.failure = .bits(0..<4, of: "flags")
        $0.serials = 16...
    }

    /// One query, for the name servers of the root.
    package static let rootQuestion: Bytes = [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1]

    /// SMPP 3.4 (sections 3.2 and 5.1): serial 1 is for `enquire_link`.
    package static let smpp = FrameLayout {
        Field.length(UInt32.self, counting: .wholeFrame)
        Field.type(UInt32.self)
        Field.status(UInt32.self)
        Field.serial(UInt32.self)
        Field.body
    }
    .roles {
        $0.ping = 0x15
        $0.response = .bit(31)
        $0.goAway = 0x06
        $0.closing = 0x06
        $0.serials = 2...0x7fff_ffff
    }

    /// Diameter (RFC 6733, section 3): the R bit marks requests, the E bit errors. Command 282 closes the connection.
    package static let diameter = FrameLayout {
        Field.constant([1])
        Field.length(width: 3, counting: .wholeFrame)
        Field.integer("flags", UInt8.self)
        Field.type(width: 3)
        Field.integer("application", UInt32.self)
        Field.serial(UInt32.self)
        Field.integer("endToEnd", UInt32.self)
        Field.body
    }
    .roles {
        $0.ping = 280
        $0.response = .bit(7, of: "flags", isSet: false)
        $0.goAway = 282
        $0.failure = .bit(5, of: "flags")
        $0.serials = 2...
    }
}
