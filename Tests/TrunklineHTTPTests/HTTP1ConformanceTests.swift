import Testing
import Trunkline
import TrunklineHTTP
import TrunklineTesting

/// Checks `HTTP1Codec` with the conformance kit.
struct HTTP1ConformanceTests {
    @Test func http1ConformsToEveryRule() throws {
        let get = try HTTP1Request(.get, "/a", headers: ["Host": "h"]).frame()
        let head = try HTTP1Request(.head, "/", headers: ["Host": "h", "Accept": "*/*"]).frame()
        let post = try HTTP1Request(.post, "/", headers: ["Host": "h", "Content-Length": "5"], body: "hello").frame()
        let headers: HTTP1Headers = ["Content-Length": "5"]
        let response = try HTTP1Response(200, reason: "OK", headers: headers, body: "hello").frame()
        let last = try HTTP1Response(404, headers: ["Content-Length": "0"]).frame()
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 \r\n\r\n"
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;a\r\n!\r\n0\r\nA: b\r\n\r\n"
        var kit = CodecConformance(
            of: HTTP1Codec(host: "h") { ($0.maximumHeadSize, $0.maximumBodySize, $0.partSize) = (512, 1024, 2048) },
            samples: [
                .init(get), .init(head), .init(post), .init(response, answering: get), .init(last, answering: post),
                .init(try HTTP1Response(204).frame(), answering: get),
                .bytes(Array(chunked.utf8), are: nil, answering: [get]),
                .bytes(
                    Array("HTTP/1.0 200 OK\r\n\r\nhello".utf8),
                    are: nil,
                    answering: [get],
                    endsWithConnection: true
                ),
                .bytes(Array(interim.utf8), are: nil, answering: [get]),
                .bytes(Array("HTTP/1.1 304 \r\nContent-Length: 7\r\n\r\n".utf8), are: nil, answering: [head]),
                .refused(Array("HTTP/1.1 200 \r\nContent-Length: 1025\r\n\r\n".utf8), answering: [get]),
                .refused(
                    Array("HTTP/1.1 200 \r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n".utf8),
                    answering: [get]
                ),
                .refused(Array("GET / HTTP/1.1\r\nHost : h\r\n\r\n".utf8), receivedBy: .server),
            ],
            maximumFrameSize: 4096
        )
        kit.bodiesAreOpaque = false
        kit.joinsParts = true
        let report = kit.check()
        #expect(report.violations.isEmpty, "\(report)")
    }
}
