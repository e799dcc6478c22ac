import Testing
import Trunkline
import TrunklineHTTP

/// Lists in fields of a peer.
@Suite struct HTTP1ListTests {}

extension HTTP1ListTests {
    private func mayCache(_ directives: String...) throws -> Bool {
        var response = HTTP1Response(200)
        for directive in directives { response.headers.append("cache-control", directive) }
        return HTTP1Codec().mayCache(try response.frame())
    }

    @Test func aResponseThatMustNotBeStoredIsNotCached() throws {
        for list in ["no-store", "No-Store", " a , NO-STORE\t", ",,no-store", "max-age=0,no-store,", "é, no-store"] {
            #expect(try !mayCache(list), "\(list)")
        }
        #expect(try !mayCache("max-age=0", "no-store"))
        for list in ["", ",", "no-stor", "no-store=1", "xno-store", "no store", "no-cache", "no-store\u{301}"] {
            #expect(try mayCache(list), "\(list)")
        }
    }

    @Test func fieldsOfOneConnectionAreDropped() {
        let headers: HTTP1Headers = [
            "Connection": "close, X-A,\tx-b ,,é", "connection": "X-C", "X-a": "1", "x-B": "2", "X-C": "3", "X-D": "4",
            "Close": "5", "Keep-Alive": "6", "Upgrade": "7", "x": "8",
        ]
        #expect(headers.endToEnd.map(\.name) == ["X-D", "x"])
    }
}
