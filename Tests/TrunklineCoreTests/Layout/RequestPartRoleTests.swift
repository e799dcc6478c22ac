import Testing
import Trunkline

/// Parts of requests beside other roles.
struct RequestPartRoleTests {
    private let flagged = RoleTests.flagged

    @Test func partsOfRequestsHaveTypesThatNoRequestHas() throws {
        for layout in [
            flagged.roles { $0.part = .types(7...8) }, flagged.roles { ($0.part, $0.goAway) = (.types(7...8), 9) },
            flagged.roles { ($0.response, $0.part, $0.requests) = (.bit(0, of: "flags"), .types(7...8), 3...5) },
        ] {
            let bytes = try layout.encoded(Frame(.part, serial: 9, body: "a")) + layout.encoded(Frame(.part, type: 8))
            let frames = try layout.serverSide().decoded(bytes).frames
            #expect(frames.map(\.kind) == [.part, .part] && frames.map(\.type) == [7, 8])
            #expect(
                layout.complaint(about: Frame(.part, type: 3)) == "in this layout, type 0x3 is not the type of a part"
            )
            #expect(
                layout.complaint(about: Frame(.request, type: 7))
                    == "in this layout, type 0x7 is a part of a request (open), unless the role requests contains it"
            )
        }
        // A type of requests or of the closing frame marks parts of replies, as it always did.
        for layout in [
            flagged.roles { ($0.part, $0.requests) = (3, 3...5) }, flagged.roles { ($0.part, $0.closing) = (3, 3) },
        ] {
            #expect(try layout.decoded(layout.serverSide().encoded(Frame(.part))).frames.map(\.kind) == [.part])
            #expect(
                layout.complaint(about: Frame(.part))
                    == "in this layout, type 0x3 is also the type of a request or closing frame, so it marks only parts of"
                    + " replies"
            )
            #expect(
                try layout.serverSide().decoded(layout.encoded(Frame(.request, type: 3))).frames.map(\.kind) == [
                    .request
                ]
            )
        }
        #expect(
            flagged.roles { $0.part = .bit(0, of: "flags") }.complaint(about: Frame(.part))
                == "the role part of this layout marks only parts of replies: parts of requests need a type or a kind field"
        )
        #expect(flagged.complaint(about: Frame(.part)) == "the layout has no role for part frames")
    }

    /// Regression: the part of a request had the number of a response, so the server read a response.
    @Test func aPartOfARequestHasTheKindNumberOfARequest() throws {
        let layout = FrameLayout {
            Field.kind(UInt8.self, [.request: 3, .response: 4])
            Field.type(UInt8.self)
            Field.serial(UInt8.self)
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        .roles { $0.part = 5 }
        let (ask, answer) = try (
            layout.encoded(Frame(.part, serial: 9)), layout.serverSide().encoded(Frame(.part, serial: 9))
        )
        #expect(ask[0] == 3 && answer[0] == 4)
        #expect(try layout.serverSide().decoded(ask).frames.map(\.kind) == [.part])
        #expect(try layout.decoded(answer).frames.map(\.kind) == [.part])
    }
}
