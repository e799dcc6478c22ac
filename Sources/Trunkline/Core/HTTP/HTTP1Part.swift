/// A piece of a response of HTTP/1.1 that is read as it comes: first the head, then content in any number of pieces, then
/// the trailers if there are any. See `Client.stream` of an `HTTP1Request`.
public enum HTTP1Part: Sendable, Hashable {
    /// Status and fields, with an empty body.
    case head(HTTP1Response)
    /// Content, out of its chunks; never empty. Where it is cut is the network's doing and means nothing.
    case content(Bytes)
    /// The fields after content in chunks.
    case trailers(HTTP1Headers)

    /// What is in `frame`, a part of a response or the last of it; `isFirst` if it is the first too.
    package static func parts(of frame: Frame, isFirst: Bool) throws(FrameError) -> [HTTP1Part] {
        var (parts, content, trailers) = ([HTTP1Part](), frame.body, HTTP1Headers())
        if isFirst {
            var response = try HTTP1Response(frame)
            (content, trailers) = (response.body, response.trailers)
            response.empty()
            parts.append(.head(response))
        } else if let length = frame[HTTP1Message.trailerLength], length > 0 {
            let end = content.count - Int(clamping: min(length, UInt64(content.count)))
            trailers = try content.withSpan { bytes throws(FrameError) in
                try HTTP1Headers(bytes, end..<bytes.count)
            }
            content = content.part(0..<end)
        }
        if !content.isEmpty { parts.append(.content(content)) }
        if !trailers.isEmpty { parts.append(.trailers(trailers)) }
        return parts
    }
}
