import Testing
import Trunkline

/// The preset `checked`. The bytes were written by hand from its tables. Adler-32 of "abc" is 0x024d0127.
struct CheckedLayoutTests {
    static let layout = FrameLayout.checked
    static let request = hex("00000003 00000032 00000003 616263 024d0127 00000003")
    static let response = hex("00000003 00000032 000000c8 00000003 616263 024d0127 00000003")

    @Test func aRequestHasNoStatusAndAResponseHasOne() throws {
        let request = Frame(.request, type: 3, serial: 50, body: "abc")
        #expect(try Self.layout.encoded(request) == Self.request)
        #expect(try Self.layout.serverSide().decoded(Self.request).frames == [request])
        let response = Frame(.response, type: 3, serial: 50, status: 200, body: "abc")
        #expect(try Self.layout.serverSide().encoded(response) == Self.response)
        #expect(try Self.layout.decoded(Self.response).frames == [response])
        #expect(Self.layout.matching == .serial(50...0xffff_ffff))
    }

    @Test func pingPushAndCancelHaveTheirTypes() throws {
        let empty = hex("00000000 00000000 00000000 00000001 00000000")
        #expect(try Self.layout.encoded(Frame(.ping)) == empty)
        #expect(try Self.layout.serverSide().decoded(empty).frames == [Frame(.ping)])
        let answer = hex("00000000 00000000 00000000 00000000 00000001 00000000")
        #expect(try Self.layout.decoded(answer).frames == [Frame(.ping)])
        let cancel = try #require(Self.layout.cancelFrame(for: 51, type: 3))
        #expect(try Self.layout.encoded(cancel) == hex("00000002 00000033 00000000 00000001 00000002"))
        let push = hex("00000001 00000000 00000000 00000003 616263 024d0127 00000001")
        #expect(try Self.layout.decoded(push).frames == [Frame(.push, type: 1, body: "abc")])
        #expect(try Self.layout.serverSide().encoded(Frame(.push, type: 1, body: "abc")) == push)
    }

    /// Of 400 serials with a wrong bit, 398 were accepted as successful responses to other requests.
    @Test func aWrongBitInTheSerialIsDetectedIfTheChecksumCoversTheHeader() throws {
        let client: FrameLayout = .checked(over: .headerAndBody)
        let server = client.serverSide()
        let request = Frame(.request, type: 3, serial: 50, body: "abc")
        let response = Frame(.response, type: 3, serial: 50, status: 200, body: "abc")
        let links: [(bytes: [UInt8], receiver: any FrameCodec)] = [
            (try client.encoded(request), server), (try server.encoded(response), client),
        ]
        for (bytes, receiver) in links {
            #expect(try receiver.decoded(bytes).frames.count == 1)
            for bit in 0..<8 * bytes.count {
                var wrong = bytes
                wrong[bit / 8] ^= 1 << UInt8(bit % 8)
                // Refused or, if the length became greater, incomplete.
                let frames = try? receiver.decoded(wrong).frames
                #expect(frames == nil || frames == [], "bit \(bit)")
            }
        }
    }

    /// The documentation of the preset states this.
    @Test func aWrongBitInTheSerialIsNotDetectedIfTheChecksumCoversTheBody() throws {
        var wrong = Self.response
        wrong[7] ^= 1
        #expect(try Self.layout.decoded(wrong).frames.map(\.serial) == [51])
    }

    @Test func theCallerChoosesTheChecksum() throws {
        #expect(try FrameLayout.checked(over: .body, by: .adler32).decoded(Self.response).frames.count == 1)
        let short = try FrameLayout.checked(over: .headerAndBody, by: .fletcher16).encoded(Frame(.request, type: 3))
        #expect(short.count == 18)
    }

    @Test func everyKindOfErrorHasItsOwnCode() {
        #expect(Self.layout.refusal(of: hex("00000003 00000032 000000c8 01000000")) == .illegalLength)
        #expect(Self.layout.refusal(of: replacing(17, in: Self.response)) == .checksumMismatch)
        #expect(Self.layout.refusal(of: replacing(20, in: Self.response)) == .checksumMismatch)
        #expect(Self.layout.refusal(of: replacing(26, in: Self.response)) == .repetitionMismatch)
        let pushToTheServer = hex("00000001 00000000 00000000 00000001 00000001")
        #expect(Self.layout.serverSide().refusal(of: pushToTheServer) == .unknownType)
        #expect(Self.layout.refusal(of: Frame(.request, type: 1)) == .unknownType)
        let empty = hex("00000003 00000032 000000c8 00000000 00000001 00000003")
        #expect(Self.layout.refusal(of: empty) == nil)
    }

    /// A missing body used to end the link, although the rest of the frame was valid.
    @Test func aResponseWithoutItsBodyDoesNotEndTheLink() throws {
        let empty = hex("00000003 00000032 000000c8 00000000 00000001 00000003")
        let layout = Self.layout.requiringBody(inResponsesTo: 3...)
        #expect(try layout.malformedReasons(of: empty + Self.response) == [.missingBody, nil])
        // Roles that are set later keep the requirement.
        #expect(try layout.roles { $0.success = 200 }.malformedReasons(of: empty) == [.missingBody])
    }

    @Test func aStatusOtherThan200IsAnErrorResponseWithStatusAndBody() throws {
        let refused = hex("00000003 00000032 00000194 00000003 616263 024d0127 00000003")
        let frame = try #require(Self.layout.decoded(refused).frames.first)
        #expect(frame.isErrorResponse && frame.status == 404 && frame.body == "abc" && frame.kind == .response)
        // A server error explains itself by its status. It needs no body, even where one is required.
        let bare = hex("00000003 00000032 00000194 00000000 00000001 00000003")
        #expect(try Self.layout.requiringBody(inResponsesTo: 3...).malformedReasons(of: bare) == [nil])
    }

    @Test func bodiesAreRequiredOfServersTooButOnlyForTheGivenTypes() {
        let layout = Self.layout.requiringBody(inResponsesTo: 10...20)
        let server = layout.serverSide()
        #expect(server.refusal(of: Frame(.response, type: 10, status: 200)) == .missingBody)
        #expect(server.refusal(of: Frame(.response, type: 9, status: 200)) == nil)
        #expect(layout.refusal(of: Frame(.request, type: 10)) == nil)
        #expect(layout.refusal(of: hex("00000000 00000000 00000000 00000000 00000001 00000000")) == nil)
    }
}
