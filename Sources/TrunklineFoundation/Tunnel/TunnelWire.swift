package import Foundation
package import Trunkline

/// How HTTP messages travel in the frames of a link.
///
/// | type | direction | body |
/// |---|---|---|
/// | 0x404 | both | a piece of the message, more follow |
/// | 0x403 | both | the whole message, or its last piece |
/// | 0x405 | to the gateway | 4 bytes, big-endian: the gateway may send so many bytes more of the content |
/// | 0x406 | to the client | the message ends here and is not whole: a code of `URLError` in decimal digits |
///
/// All frames of a request and its response have the serial of the first. A message is an HTTP/1.1 head (RFC 9112), whole within the first
/// piece and of at most 64 KiB, and then the content, which ends with the frame 0x403. Requests have their target in
/// absolute form (RFC 9112 §3.2.2) and `Trunkline-Window`, the bytes of content that the gateway may send at first. A piece of
/// content counts for 256 bytes at least, so that a window bounds the frames as well; and no piece of a response is
/// larger than half the first window, since a client tells of half a window at a time.
package enum TunnelWire {
    package static let messageType: UInt32 = 0x403
    package static let pieceType: UInt32 = 0x404
    package static let windowType: UInt32 = 0x405
    package static let abortType: UInt32 = 0x406

    /// The field with the first window.
    package static let windowField = "Trunkline-Window"
    /// The field of answers that are the gateway's own.
    package static let gatewayField = "Trunkline-Gateway"
    /// How such fields begin; none is ever passed on.
    package static let reservedPrefix = "trunkline-"

    /// The most content in one frame.
    package static let pieceSize = 64 * 1024
    /// The smallest window, and the largest.
    package static let windows = 64 * 1024...1 << 30

    /// What a piece of `count` bytes takes from the window; the empty last one takes nothing.
    package static func cost(of count: Int) -> Int { count == 0 ? 0 : max(256, count) }

    package static func window(_ count: Int) -> Request {
        let value = UInt32(clamping: count)
        return Request(type: windowType, body: Bytes((0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * $0)) }))
    }

    /// What a frame of type 0x405 adds.
    package static func window(in frame: Frame) throws(FrameError) -> Int {
        guard frame.body.count == 4 else { throw FrameError(.illegalLength, "a window of \(frame.body.count) bytes") }
        return frame.body.reduce(0) { $0 << 8 | Int($1) }
    }

    package static func abort(_ code: URLError.Code) -> Frame {
        Frame(.response, type: abortType, body: Bytes("\(code.rawValue)"))
    }

    /// The code in a response of type 0x406.
    package static func abortCode(in response: Response) -> URLError.Code {
        Int(String(response.body)).flatMap { URLError.Code(rawValue: $0) } ?? .networkConnectionLost
    }
}

/// Why a gateway answers itself, in its field: `unreachable; code=-1004`.
package struct GatewayVerdict: Sendable, Hashable {
    package enum Reason: String, Sendable, Hashable {
        /// The request is none, or not for gateways.
        case malformed
        /// The origin is not on the gateway's list.
        case forbidden
        /// The content is more than the gateway takes.
        case tooLarge = "too-large"
        /// The gateway has too much to do.
        case busy
        /// The origin could not be reached, and has not seen the request: see the code.
        case unreachable
        /// The origin failed, and may have seen the request: see the code.
        case failed
    }

    package var reason: Reason
    /// What a URLSession said.
    package var code: URLError.Code?

    package init(_ reason: Reason, _ code: URLError.Code? = nil) { (self.reason, self.code) = (reason, code) }

    package init?(_ text: String) {
        let parts = text.split(separator: ";", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
        guard let first = parts.first, let reason = Reason(rawValue: first) else { return nil }
        self.reason = reason
        if parts.count == 2, parts[1].hasPrefix("code="), let number = Int(parts[1].dropFirst(5)) {
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

    /// Whether the origin has not seen the request, so that it may be sent another way.
    package var isUnperformed: Bool {
        switch reason {
        case .malformed, .forbidden, .tooLarge, .busy, .unreachable: true
        case .failed: false
        }
    }
}
