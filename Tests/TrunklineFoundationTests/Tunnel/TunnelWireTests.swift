import Foundation
import Testing
import Trunkline
import TrunklineFoundation

/// The words of a gateway.
@Suite struct TunnelWireTests {}

extension TunnelWireTests {
    @Test(
        arguments: [
            ("-1004", .cannotConnectToHost), ("-1001", .timedOut), ("", .networkConnectionLost),
            ("x", .networkConnectionLost), ("-1004 ", .networkConnectionLost), ("+1", .networkConnectionLost),
        ] as [(String, URLError.Code)]
    )
    func theEndOfAMessageHasACode(_ text: String, _ code: URLError.Code) {
        let response = Response(type: TunnelWire.abortType, body: Bytes(text))
        #expect(TunnelWire.abortCode(in: response) == code)
    }

    /// Otherwise, each of its megabytes would be read.
    @Test func aLongCodeIsNoCode() {
        let response = Response(type: TunnelWire.abortType, body: Bytes(String(repeating: "0", count: 1 << 20) + "1"))
        #expect(TunnelWire.abortCode(in: response) == .networkConnectionLost)
    }

    @Test func aVerdictIsReadAsItWasWritten() {
        let reasons: [GatewayVerdict.Reason] = [.malformed, .forbidden, .tooLarge, .busy, .unreachable, .failed]
        for reason in reasons {
            for code in [nil, .cannotConnectToHost, .timedOut] as [URLError.Code?] {
                let verdict = GatewayVerdict(reason, code)
                #expect(GatewayVerdict(verdict.text) == verdict)
            }
        }
        #expect(GatewayVerdict(" busy ;  code=-1 ") == GatewayVerdict(.busy, URLError.Code(rawValue: -1)))
        #expect(GatewayVerdict("busy; code=x") == GatewayVerdict(.busy))
        for text in ["", ";", "Busy", "busy\u{301}", "busy" + String(repeating: " ", count: 60_000)] {
            #expect(GatewayVerdict(text) == nil)
        }
    }
}
