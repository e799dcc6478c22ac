package import Foundation
package import TrunklineCore

/// The frames that carry HTTP messages over a link.
///
/// | Type | Direction | Body |
/// |---|---|---|
/// | 0x404 | both | a part of the message; more parts follow |
/// | 0x403 | both | the whole message, or its last part |
/// | 0x405 | to the gateway | window update: 4 bytes, big-endian, further content bytes the gateway may send |
/// | 0x406 | to the client | the message ends here, incomplete: a code of `URLError` in decimal digits |
///
/// All frames of a request and its response have the serial of the first frame. A message is an HTTP/1.1 head (RFC
/// 9112) of at most 64 KiB, all of it in the first part, followed by the content, which ends with the frame 0x403.
///
/// A request has its target in absolute form (RFC 9112 §3.2.2), and the field `Trunkline-Window`: the number of content
/// bytes that the gateway may send at first. Each part counts as at least 256 bytes, so that the window also bounds the
/// number of frames. A part of a response has at most half of the first window, because a client sends window updates
/// for half a window at a time.
package enum TunnelWire {
    package static let messageType: UInt32 = 0x403
    package static let pieceType: UInt32 = 0x404
    package static let windowType: UInt32 = 0x405
    package static let abortType: UInt32 = 0x406

    package static let windowField = "Trunkline-Window"
    package static let gatewayField = "Trunkline-Gateway"
    /// Fields with this prefix are never forwarded.
    package static let reservedPrefix = "trunkline-"

    /// The maximum content of one frame in bytes.
    package static let pieceSize = 64 * 1024
    /// The permitted initial windows in bytes.
    package static let windows = 64 * 1024...1 << 30

    /// What `count` bytes of content take of the window. The empty last part takes nothing.
    package static func cost(of count: Int) -> Int { count == 0 ? 0 : max(256, count) }

    static func window(_ count: Int) -> Request {
        let value = UInt32(clamping: count)
        return Request(type: windowType, body: Bytes((0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * $0)) }))
    }

    package static func window(in frame: Frame) throws(FrameError) -> Int {
        guard frame.body.count == 4 else {
            throw FrameError(.illegalLength, "a window update of \(frame.body.count) bytes, expected 4")
        }
        return frame.body.reduce(0) { $0 << 8 | Int($1) }
    }

    package static func abort(_ code: URLError.Code) -> Frame {
        Frame(.response, type: abortType, body: Bytes("\(code.rawValue)"))
    }

    /// `networkConnectionLost` if the body is not a number.
    package static func abortCode(in response: Response) -> URLError.Code {
        // A code has a few digits; the body may have megabytes.
        guard response.body.count <= 20 else { return .networkConnectionLost }
        return Int(strictSigned: String(response.body)).flatMap { URLError.Code(rawValue: $0) }
            ?? .networkConnectionLost
    }
}

/// As the field contains it: `unreachable; code=-1004`.
package struct GatewayVerdict: Sendable, Hashable {
    package enum Reason: String, Sendable, Hashable {
        case malformed
        /// The origin is not on the gateway's list, or its name resolves to an address that is not public.
        case forbidden
        case tooLarge = "too-large"
        /// The gateway has too many requests in progress, or no room for the content.
        case busy
        /// The origin has not received the request.
        case unreachable
        /// The origin may have received the request.
        case failed
    }

    package var reason: Reason
    package var code: URLError.Code?

    package init(_ reason: Reason, _ code: URLError.Code? = nil) { (self.reason, self.code) = (reason, code) }

    package init?(_ text: String) {
        // A verdict has a few words; a header has up to 64 KiB.
        guard text.utf8.count <= 64 else { return nil }
        let parts = text.split(separator: ";", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
        guard let first = parts.first, let reason = Reason(rawValue: first) else { return nil }
        self.reason = reason
        if parts.count == 2, parts[1].hasPrefix("code="), let number = Int(strictSigned: parts[1].dropFirst(5)) {
            code = URLError.Code(rawValue: number)
        }
    }

    package var text: String { code.map { "\(reason.rawValue); code=\($0.rawValue)" } ?? reason.rawValue }

    package var status: Int {
        switch (reason, code) {
        case (.malformed, _): 400
        case (.forbidden, _): 403
        case (.tooLarge, _): 413
        case (.busy, _): 503
        case (.failed, .timedOut?): 504
        case (.failed, _), (.unreachable, _): 502
        }
    }

    var isUnperformed: Bool {
        switch reason {
        case .malformed, .forbidden, .tooLarge, .busy, .unreachable: true
        case .failed: false
        }
    }
}
