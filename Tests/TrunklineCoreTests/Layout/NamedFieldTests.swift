import Testing
import Trunkline

extension Layouts {
    /// Named bytes before and after the body, around numbers.
    static let named = FrameLayout {
        Field.bytes("token", 4)
        Field.integer("version", UInt8.self, default: 1)
        Field.serial(UInt32.self)
        Field.length(UInt16.self, counting: .body)
        Field.contentType(UInt8.self)
        Field.body
        Field.bytes("mark", 2, default: [0xAB, 0xCD])
    }
}

struct NamedFieldTests {
    @Test func bytesAreZerosOrTheirDefaultUnlessSet() throws {
        var frame = Frame(.request, serial: 50, body: "x")
        #expect(try Layouts.named.encoded(frame) == hex("00000000 01 00000032 0001 00 78 abcd"))
        frame[bytes: "token"] = [1, 2, 3, 4]
        frame[bytes: "mark"] = [5, 6]
        frame["contentType"] = 2
        let bytes = hex("01020304 01 00000032 0001 02 78 0506")
        #expect(try Layouts.named.encoded(frame) == bytes)
        frame["version"] = 1
        #expect(try Layouts.named.serverSide().decoded(bytes).frames == [frame])
        #expect(frame[bytes: "token"] == [1, 2, 3, 4] && frame["token"] == nil && frame[bytes: "version"] == nil)
    }

    /// Frames with the same fields used to be unequal if the fields had been set in a different order.
    @Test func theOrderInWhichFieldsAreSetDoesNotMatter() {
        var (a, b) = (Frame(.request), Frame(.request))
        a["x"] = 1
        a[bytes: "y"] = [2]
        b[bytes: "y"] = [2]
        b["x"] = 1
        #expect(a == b)
        b["x"] = nil
        #expect(a != b && b["x"] == nil)
        b[bytes: "y"] = nil
        #expect(b == Frame(.request))
    }

    @Test func aFrameWhoseLastFieldWasRemovedEqualsAFrameWithoutFields() {
        let plain = Frame(.request, type: 7, serial: 5, body: "a")
        var frame = plain
        frame["x"] = 1
        frame[bytes: "y"] = [2]
        #expect(frame != plain && frame.fieldNames == ["x", "y"])
        frame["x"] = nil
        #expect(frame != plain && frame.fieldNames == ["y"])
        #expect(frame["x"] == nil && frame[bytes: "y"] == [2])
        frame[bytes: "y"] = nil
        #expect(frame == plain && frame.hashValue == plain.hashValue)
        #expect(Set([frame, plain]).count == 1)
        // Removing a field that was never set changes nothing.
        frame["z"] = nil
        #expect(frame == plain && frame.hashValue == plain.hashValue && frame.fieldNames.isEmpty)
    }

    @Test(arguments: [("a", "b"), ("b", "a")])
    func removingOneOfTwoFieldsKeepsTheOther(_ removed: String, _ kept: String) {
        var frame = Frame(.request)
        frame["a"] = 1
        frame["b"] = 1
        frame[removed] = nil
        #expect(frame[removed] == nil && frame[kept] == 1 && frame.fieldNames == [kept])
        var other = Frame(.request)
        other[kept] = 1
        #expect(frame == other && frame.hashValue == other.hashValue)
    }

    @Test func wrongSizesKindsAndNamesAreRefused() {
        func refusal(_ change: (inout Frame) -> Void) -> FrameError.Code? {
            var frame = Frame(.request)
            change(&frame)
            return Layouts.named.refusal(of: frame)
        }
        #expect(refusal { $0[bytes: "token"] = [1, 2, 3] } == .malformed)
        #expect(refusal { $0[bytes: "token"] = [1, 2, 3, 4, 5] } == .malformed)
        #expect(refusal { $0["token"] = 1 } == .malformed)
        #expect(refusal { $0[bytes: "version"] = [1] } == .malformed)
        #expect(refusal { $0[bytes: "tokens"] = [1, 2, 3, 4] } == .malformed)
        #expect(refusal { $0[bytes: "token"] = [1, 2, 3, 4] } == nil)
    }
}

/// Fields that have the same value in every frame of a link, such as the token of a session.
struct FieldDefaultTests {
    @Test func aFrameThatDoesNotSetAFieldHasItsDefault() throws {
        var link = Layouts.named
        var session = Frame(.request)
        session[bytes: "token"] = [1, 2, 3, 4]
        session[bytes: "mark"] = [5, 6]
        session["version"] = 7
        try link.setDefaults(from: session)
        #expect(try link.encoded(Frame(.request, serial: 50, body: "x")) == hex("01020304 07 00000032 0001 00 78 0506"))
        var frame = Frame(.request, serial: 51)
        frame[bytes: "token"] = [9, 9, 9, 9]
        #expect(try link.encoded(frame) == hex("09090909 07 00000033 0000 00 0506"))
        // The layout that `link` was copied from keeps its own defaults.
        #expect(try Layouts.named.encoded(Frame(.request)) == hex("00000000 01 00000000 0000 00 abcd"))
        // Setting one default keeps the others.
        session = Frame(.request)
        session["version"] = 8
        try link.setDefaults(from: session)
        #expect(try link.encoded(Frame(.request)) == hex("01020304 08 00000000 0000 00 0506"))
        // Received frames are not affected.
        #expect(try link.decoded(hex("00000000 01 00000000 0000 00 abcd")).frames.count == 1)
    }

    @Test func invalidDefaultsAreRefusedAndChangeNothing() throws {
        var link = Layouts.named
        func refusal(_ change: (inout Frame) -> Void) -> FrameError.Code? {
            var frame = Frame(.request)
            change(&frame)
            do throws(FrameError) {
                try link.setDefaults(from: frame)
                return nil
            } catch {
                return error.code
            }
        }
        #expect(refusal { $0["version"] = 256 } == .malformed)
        #expect(refusal { $0["token"] = 1 } == .malformed)
        #expect(refusal { $0["nothing"] = 1 } == .malformed)
        #expect(refusal { $0[bytes: "token"] = [1] } == .malformed)
        #expect(try link.encoded(Frame(.request)) == hex("00000000 01 00000000 0000 00 abcd"))
    }
}

struct BodySizeTests {
    @Test func bodiesMustHaveTheDeclaredSizes() throws {
        let layout = FrameLayout {
            Field.length(UInt8.self, counting: .wholeFrame)
            Field.body(sizes: 2...4)
        }
        #expect(layout.refusal(of: hex("01")) == .missingBody)
        #expect(layout.refusal(of: hex("02")) == .illegalLength)
        #expect(layout.refusal(of: hex("05")) == nil)
        #expect(layout.refusal(of: hex("06")) == .illegalLength)
        #expect(layout.refusal(of: Frame(.request)) == .missingBody)
        #expect(layout.refusal(of: Frame(.request, body: "1")) == .illegalLength)
        #expect(layout.refusal(of: Frame(.request, body: "12345")) == .illegalLength)
        #expect(try layout.encoded(Frame(.request, body: "12")) == hex("03 3132"))
    }

    @Test func eachDirectionCanHaveItsOwnSizes() throws {
        let layout = FrameLayout {
            Field.length(UInt8.self, counting: .body)
            Field.body(sizes: 4...4)
        } response: {
            Field.status(UInt8.self)
            Field.length(UInt8.self, counting: .body)
            Field.body(sizes: 1...)
        }
        #expect(try layout.encoded(Frame(.request, body: "1234")) == hex("04 31323334"))
        #expect(layout.refusal(of: Frame(.request, body: "123")) == .illegalLength)
        #expect(layout.refusal(of: hex("00 00")) == .missingBody)
        #expect(layout.serverSide().refusal(of: hex("05")) == .illegalLength)
        #expect(try layout.decoded(hex("07 01 61")).frames.map(\.isErrorResponse) == [true])
    }
}
