import Testing
import Trunkline

/// Roles that were accepted although frames with them could not be sent, or were read as frames of another role.
struct RoleSampleTests {
    private let flagged = RoleTests.flagged

    private func mistake(_ layout: () throws -> FrameLayout) -> String? {
        #expect(throws: LayoutError.self) { try layout() }?.description
    }

    @Test func aRoleWhoseFramesCannotBeSentIsNamed() {
        for (role, layout) in [
            ("part", { try flagged.validatingRoles(response: .types(0x80...), part: 7) }),
            ("push", { try flagged.validatingRoles(push: 0x85, response: .types(0x80...)) }),
            ("goAway", { try flagged.validatingRoles(response: .types(0x80...), goAway: 0x85) }),
            ("cancel", { try flagged.validatingRoles(cancel: 0x85, response: .types(0x80...)) }),
            ("closing", { try flagged.validatingRoles(response: .types(0x80...), closing: 0x85) }),
            ("window", { try flagged.validatingRoles(response: .types(0x80...), window: 0x85) }),
            ("ping", { try flagged.validatingRoles(ping: 0x85, response: .types(0x80...)) }),
            ("pong", { try flagged.validatingRoles(ping: 1, response: .types(0x80...)) }),
        ] as [(String, () throws -> FrameLayout)] {
            let text = mistake(layout)
            #expect(text?.hasPrefix("role \(role): its frames cannot be sent: ") == true, "\(text ?? "")")
            #expect(text?.contains("in this layout") == true, "\(text ?? "")")
        }
        #expect(
            mistake { try flagged.validatingRoles(response: .types(0x80...), requests: 3...9) }
                == "role response: its frames cannot be sent: type 0x80 is not in the role requests (types 0x3 to 0x9)"
        )
        #expect(
            mistake { try flagged.validatingRoles(part: 7, failure: .types(7...9)) }
                == "role failure: its frames cannot be sent: the type 0x7 has the role a part in this layout"
        )
    }

    @Test func partsOfRequestsHaveTypesThatNoRequestHas() throws {
        for layout in [
            flagged.roles(part: .types(7...8)), flagged.roles(part: .types(7...8), goAway: 9),
            flagged.roles(response: .bit(0, of: "flags"), part: .types(7...8), requests: 3...5),
        ] {
            let bytes = try layout.encoded(Frame(.part, serial: 9, body: "a")) + layout.encoded(Frame(.part, type: 8))
            let frames = try layout.serverSide().decoded(bytes).frames
            #expect(frames.map(\.kind) == [.part, .part] && frames.map(\.type) == [7, 8])
            #expect(
                layout.complaint(about: Frame(.part, type: 3)) == "in this layout, type 0x3 is not the type of a part"
            )
            #expect(
                layout.complaint(about: Frame(.request, type: 7))
                    == "in this layout, type 0x7 is a part of a request (open)"
            )
        }
        // A type of requests or of the closing frame marks parts of replies, as it always did.
        for layout in [flagged.roles(part: 3, requests: 3...5), flagged.roles(part: 3, closing: 3)] {
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
            flagged.roles(part: .bit(0, of: "flags")).complaint(about: Frame(.part))
                == "the role part of this layout marks only parts of replies: parts of requests need a type or a kind field"
        )
        #expect(flagged.complaint(about: Frame(.part)) == "the layout has no role for part frames")
    }

    /// Every frame that can be sent is read as the same kind, and no error claims that a declared role does not exist.
    @Test func everyAcceptedCombinationOfRolesKeepsTheKindsOfFrames() throws {
        let kindField = FrameLayout {
            Field.kind(UInt8.self, [.request: 1, .response: 2, .part: 3, .goAway: 5])
            Field.type(UInt8.self)
            Field.serial(UInt8.self)
            Field.integer("flags", UInt8.self)
            Field.integer("wait", UInt16.self)
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        var (accepted, sent) = (0, 0)
        for seed in seeds(1500) {
            var generator = SeededGenerator(seed: seed)
            func choice<Value>(_ values: Value...) -> Value { values.randomElement(using: &generator)! }
            let hasKinds = choice(true, false, false)
            let (push, response) = (choice(nil, Role.types(2...3), 0x45, .field("wait", 7)), mark(choice(0, 1, 2, 3)))
            let (part, goAway) = (
                choice(nil, Role.types(5...6), 0x46, .bit(6), .field("wait", 9)),
                choice(nil, Role(8), .field("wait", 8))
            )
            let requests = choice(nil, nil, UInt32(0x10)...0x1f, 5...0x7f)
            let made = try? (hasKinds ? kindField : flagged).validatingRoles(
                ping: choice(nil, 1),
                pong: choice(nil, nil, 1, 9),
                push: push,
                cancel: choice(nil, 4),
                response: response,
                part: part,
                window: choice(nil, 0x13),
                goAway: goAway,
                closing: choice(nil, 8, 5),
                failure: choice(nil, Role.bit(3, of: "flags"), .types(0x20...0x21)),
                requests: requests
            )
            guard let layout = made else { continue }
            accepted += 1
            for isServer in [false, true] {
                let sender: any FrameCodec = isServer ? layout.serverSide() : layout
                let receiver: any FrameCodec = isServer ? layout : layout.serverSide()
                let kinds: [Frame.Kind] =
                    isServer
                    ? [.response, .part, .push, .ping, .pong, .goAway]
                    : [.request, .part, .ping, .pong, .cancel, .goAway]
                let types: [UInt32] = [0, 1, 2, 4, 5, 6, 8, 9, 0x12, 0x13, 0x20, 0x45, 0x46]
                for kind in kinds {
                    // The codec makes these frames itself, and a server answers with types of responses.
                    let hasOwnType = kind == .ping || kind == .pong || kind == .cancel
                    for type in hasOwnType ? [0] : kind == .response ? [0x12, 0x45] : types {
                        let frame = Frame(kind, type: type, serial: 50)
                        if let complaint = sender.complaint(about: frame) {
                            let isDeclared = kind == .part && part != nil || kind == .goAway && goAway != nil
                            #expect(!isDeclared || !complaint.contains("no role"), "seed \(seed): \(complaint)")
                            continue
                        }
                        sent += 1
                        let found = (try? receiver.decoded(sender.encoded(frame)).frames) ?? []
                        var expected = [kind]
                        if kind == .pong, layout.pongsLookLikePings { expected = [.ping] }
                        #expect(found.map(\.kind) == expected, "seed \(seed), server \(isServer): \(frame)")
                    }
                }
            }
        }
        #expect(accepted > 100 && sent > 1000)
    }

    private func mark(_ choice: Int) -> Role? {
        [nil, .bit(7), .types(0x40...0x7f), .bit(0, of: "flags")][choice]
    }
}
