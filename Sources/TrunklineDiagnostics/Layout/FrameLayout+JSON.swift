import TrunklineCore
public import TrunklineLayouts

// A layout as JSON has the names and defaults of the Swift API: a field is an object whose member of the field's name
// has its width, and a role is a member of "roles". "comment" is allowed in every object.

extension FrameLayout {
    /// Creates a layout from its description in JSON, for tools that learn of a protocol at run time.
    ///
    /// ```json
    /// {
    ///   "fields": [
    ///     {"constant": "cafe"},
    ///     {"type": 2},
    ///     {"serial": 4},
    ///     {"length": 4, "counting": "body"},
    ///     {"body": true},
    ///     {"checksum": "adler32", "over": "body"}
    ///   ],
    ///   "roles": {"ping": 0, "push": 1, "cancel": 2, "serials": "50..."}
    /// }
    /// ```
    ///
    /// <doc:LayoutsInJSON> lists the members. Everything that a layout can express has one, except closures: custom
    /// checksums, the role `kind` and keys of pushes.
    ///
    /// - Throws: ``/Trunkline/LayoutError`` with the path of a member that is not known or has a wrong value
    ///   (`fields[3].length`), or with the line of malformed JSON. If the fields do not make a layout, the error is
    ///   that of the same declaration in code, which counts fields from 1.
    public init(json text: String) throws(LayoutError) {
        let value: JSONValue
        // Some editors write a byte-order mark.
        let json = text.unicodeScalars.first == "\u{FEFF}" ? String(text.unicodeScalars.dropFirst()) : text
        do throws(JSONSyntaxError) { value = try JSONValue(parsing: json) } catch {
            throw LayoutError("line \(error.line)", "it is not JSON, or nested more than 16 levels deep")
        }
        var members = try LayoutMembers(LayoutElement(value, at: "the layout"))
        self = try members.layout()
        try members.finish()
    }
}

/// A value of the document with its path, which errors name.
private struct LayoutElement {
    let value: JSONValue
    let path: String

    init(_ value: JSONValue, at path: String) { (self.value, self.path) = (value, path) }

    func error(_ message: String) -> LayoutError { LayoutError(path, message) }

    var elements: [LayoutElement] {
        get throws(LayoutError) {
            guard case .list(let values) = value else { throw error("a list is expected") }
            return values.enumerated().map { LayoutElement($1, at: "\(path)[\($0)]") }
        }
    }

    var text: String {
        get throws(LayoutError) {
            guard let text = value.text else { throw error("a text is expected") }
            return text
        }
    }

    var flag: Bool {
        get throws(LayoutError) {
            guard let flag = value.flag else { throw error("true or false is expected") }
            return flag
        }
    }

    var bytes: [UInt8] {
        get throws(LayoutError) {
            guard let bytes = HexText.bytes(of: try text) else {
                throw error("an even number of hexadecimal digits is expected")
            }
            return bytes
        }
    }

    /// An integer, as a number or as text: `10`, `"10"` or `"0x0a"`.
    func integer<Number: FixedWidthInteger>(_ type: Number.Type = Number.self) throws(LayoutError) -> Number {
        if let number = value.integer(type) ?? value.text.flatMap({ Self.integer($0, type) }) { return number }
        throw error("an integer from \(Number.min) to \(Number.max) is expected, such as 10 or \"0x0a\"")
    }

    private static func integer<Number: FixedWidthInteger>(_ text: some StringProtocol, _: Number.Type) -> Number? {
        text.hasPrefix("0x")
            ? Number(strict: text.dropFirst(2), radix: 16, allowingZeros: true) : Number(strictSigned: text)
    }

    /// A range, as a number or as text: `7`, `"3..."` or `"0x10...0x1f"`.
    func range<Number: FixedWidthInteger>(_ type: Number.Type = Number.self) throws(LayoutError) -> any RangeExpression<
        Number
    > {
        let problem = error("an integer or a range of them is expected, such as 7, \"3...\" or \"0x10...0x1f\"")
        guard let text = value.text, let dots = text.firstEnd(of: "...") else {
            do throws(LayoutError) {
                let number = try integer(type)
                return number...number
            } catch {
                throw problem
            }
        }
        guard let lower = Self.integer(text[..<dots.lowerBound], type) else { throw problem }
        if dots.upperBound == text.endIndex { return lower... }
        guard let upper = Self.integer(text[dots.upperBound...], type), lower <= upper else { throw problem }
        return lower...upper
    }

    func choice<Choice>(_ choices: KeyValuePairs<String, Choice>) throws(LayoutError) -> Choice {
        let name = value.text
        if let choice = choices.first(where: { $0.key == name }) { return choice.value }
        throw error("one of these is expected: \(choices.map { "\"\($0.key)\"" }.joined(separator: ", "))")
    }
}

extension String {
    fileprivate func firstEnd(of pattern: String) -> Range<Index>? {
        indices.lazy.filter { self[$0...].hasPrefix(pattern) }.first.map {
            $0..<index($0, offsetBy: pattern.count)
        }
    }
}

/// The members of an object, each of which is to be taken.
private struct LayoutMembers {
    private let path: String
    private let isRoot: Bool
    private var members: [(name: String, value: JSONValue)]

    init(_ element: LayoutElement) throws(LayoutError) {
        guard case .object(let members) = element.value else { throw element.error("an object is expected") }
        (path, self.members) = (element.path, members)
        isRoot = path == "the layout"
        var names: Set<String> = []
        for member in members where !names.insert(member.name).inserted {
            throw LayoutError(place(of: member.name), "the member is there twice")
        }
        _ = take("comment")
    }

    func place(of name: String) -> String { isRoot ? name : "\(path).\(name)" }

    func error(_ message: String) -> LayoutError { LayoutError(path, message) }

    var names: [String] { members.map(\.name) }

    mutating func take(_ name: String) -> LayoutElement? {
        guard let index = members.firstIndex(where: { $0.name == name }) else { return nil }
        return LayoutElement(members.remove(at: index).value, at: place(of: name))
    }

    mutating func require(_ name: String) throws(LayoutError) -> LayoutElement {
        guard let element = take(name) else { throw LayoutError(place(of: name), "the member is missing") }
        return element
    }

    func finish() throws(LayoutError) {
        if let member = members.first { throw LayoutError(place(of: member.name), "unknown member") }
    }
}

extension LayoutMembers {
    mutating func layout() throws(LayoutError) -> FrameLayout {
        var layout: FrameLayout
        if let fields = take("fields") {
            layout = try FrameLayout(validating: try Self.fields(fields))
        } else {
            guard let request = take("request") else { throw LayoutError("fields", "the member is missing") }
            let response = try require("response")
            layout = try FrameLayout(validating: try Self.fields(request), response: try Self.fields(response))
        }
        if let types = take("requiringBody") { layout = try Self.requiringBody(layout, types.range()) }
        if let element = take("roles") {
            var members = try LayoutMembers(element)
            let roles = try members.roles()
            try members.finish()
            layout = try layout.validatingRoles { $0 = roles }
        }
        if let names = take("namingRequests") { layout = layout.namingRequests(try Self.requestNames(names)) }
        if let size = take("maximumFrameSize") { layout.maximumFrameSize = try size.integer() }
        return layout
    }

    private static func requestNames(_ element: LayoutElement) throws(LayoutError) -> [UInt32: String] {
        var members = try LayoutMembers(element)
        var names: [UInt32: String] = [:]
        for member in members.names {
            guard let name = members.take(member) else { continue }
            let type: UInt32 = try LayoutElement(.text(member), at: name.path).integer()
            guard names.updateValue(try name.text, forKey: type) == nil else {
                throw name.error("the type has a name already")
            }
        }
        return names
    }

    /// A function, because the range must have a type here.
    private static func requiringBody(
        _ layout: FrameLayout,
        _ types: any RangeExpression<UInt32>
    ) throws(LayoutError) -> FrameLayout { try layout.validatingBodies(inResponsesTo: types) }

    private static func fields(_ list: LayoutElement) throws(LayoutError) -> [Field] {
        var fields: [Field] = []
        for element in try list.elements {
            var members = try LayoutMembers(element)
            fields.append(try members.field())
            try members.finish()
        }
        return fields
    }
}

extension LayoutMembers {
    private static let contents = [
        "constant", "type", "serial", "status", "kind", "length", "integer", "bytes", "contentType", "reserved", "body",
        "checksum",
    ]

    mutating func field() throws(LayoutError) -> Field {
        let found = names.filter(Self.contents.contains)
        guard let content = found.first, found.count == 1, let element = take(content) else {
            throw error("a field has exactly one of the members \(Self.contents.joined(separator: ", "))")
        }
        switch content {
        case "constant": return try constant(element)
        case "type": return .type(width: try element.integer(), order: try order())
        case "serial": return .serial(width: try element.integer(), order: try order())
        case "status": return .status(width: try element.integer(), order: try order())
        case "kind": return try kind(element)
        case "length": return try length(element)
        case "integer": return try integer(named: try require("name").text, element)
        case "contentType": return try integer(named: "contentType", element)
        case "bytes":
            let (name, initial) = (try require("name").text, take("default"))
            return .bytes(name, try element.integer(), default: try initial?.bytes)
        case "reserved": return .reserved(try element.integer())
        case "body": return try body(element)
        default:
            let scope = try require("over").choice(["body": Checksum.Scope.body, "headerAndBody": .headerAndBody])
            return .checksum(try element.choice(Self.checksums), over: scope, order: try order())
        }
    }

    private static let checksums: KeyValuePairs<String, Checksum> = [
        "crc32": .crc32, "crc32c": .crc32c, "adler32": .adler32, "fletcher16": .fletcher16, "sha256": .sha256,
        "md5": .md5, "md5Hexadecimal": .md5Hexadecimal,
    ]

    private mutating func order(_ initial: ByteOrder = .bigEndian) throws(LayoutError) -> ByteOrder {
        try take("order")?.choice(["bigEndian": .bigEndian, "littleEndian": .littleEndian]) ?? initial
    }

    private func constant(_ element: LayoutElement) throws(LayoutError) -> Field {
        guard case .object = element.value else { return .constant(try element.bytes) }
        var members = try LayoutMembers(element)
        let (request, response) = (try members.require("request").bytes, try members.require("response").bytes)
        try members.finish()
        return .constant(request: request, response: response)
    }

    private mutating func kind(_ width: LayoutElement) throws(LayoutError) -> Field {
        var members = try LayoutMembers(try require("numbers"))
        var numbers: [Frame.Kind: UInt64] = [:]
        for (name, kind) in Self.kinds { numbers[kind] = try members.take(name)?.integer() }
        try members.finish()
        let order = try order()
        switch try width.integer(Int.self) {
        case 1: return .kind(UInt8.self, numbers, order: order)
        case 2: return .kind(UInt16.self, numbers, order: order)
        case 4: return .kind(UInt32.self, numbers, order: order)
        case 8: return .kind(UInt64.self, numbers, order: order)
        default: throw width.error("a kind is 1, 2, 4 or 8 bytes wide")
        }
    }

    private static let kinds: KeyValuePairs<String, Frame.Kind> = [
        "request": .request, "response": .response, "part": .part, "push": .push, "ping": .ping, "pong": .pong,
        "cancel": .cancel, "goAway": .goAway,
    ]

    private mutating func length(_ element: LayoutElement) throws(LayoutError) -> Field {
        let count = try require("counting").choice([
            "body": LengthCount.body, "wholeFrame": .wholeFrame, "rest": .rest,
        ])
        let counted = count.plus(try take("plus")?.integer() ?? 0)
        if element.value.text == "varint" { return .varintLength(counting: counted, order: try order(.littleEndian)) }
        return .length(width: try element.integer(), counting: counted, order: try order())
    }

    private mutating func integer(named name: String, _ width: LayoutElement) throws(LayoutError) -> Field {
        let initial: UInt64 = try take("default")?.integer() ?? 0
        return .integer(name, width: try width.integer(), default: initial, order: try order())
    }

    private func body(_ sizes: LayoutElement) throws(LayoutError) -> Field {
        if sizes.value.flag == true { return .body }
        func field(_ range: any RangeExpression<Int>) -> Field { .body(sizes: range) }
        return field(try sizes.range())
    }
}

extension LayoutMembers {
    mutating func roles() throws(LayoutError) -> FrameLayout.Roles {
        var roles = FrameLayout.Roles()
        roles.ping = try take("ping")?.integer()
        roles.pong = try take("pong")?.integer()
        roles.cancel = try take("cancel")?.integer()
        roles.closing = try take("closing")?.integer()
        roles.window = try take("window")?.integer()
        if let heartbeat = take("heartbeat") { roles.heartbeat = try Self.heartbeat(heartbeat) }
        if let role = take("goAway") { roles.goAway = try Self.role(role) }
        if let role = take("push") { roles.push = try Self.role(role) }
        if let role = take("response") { roles.response = try Self.role(role) }
        if let role = take("part") { roles.part = try Self.role(role) }
        if let role = take("failure") { roles.failure = try Self.role(role) }
        if let code = take("failureCode") { roles.failureCode = try Self.failureCode(code) }
        if let success = take("success") { roles.success = Self.statuses(try success.range()) }
        if let requests = take("requests") { roles.requests = try requests.range() }
        if let serials = take("serials") { roles.serials = try serials.range() }
        if let isRandom = take("usesRandomSerials") { roles.usesRandomSerials = try isRandom.flag }
        if let delay = take("retryAfter") { roles.retryAfter = try Self.retryAfter(delay) }
        if let list = take("responsesRepeat") {
            for element in try list.elements { roles.responsesRepeat.append(try Self.repeated(element)) }
        }
        return roles
    }

    private static func role(_ element: LayoutElement) throws(LayoutError) -> Role {
        guard case .object = element.value else { return types(try element.range()) }
        var members = try LayoutMembers(element)
        let role: Role
        if let bit = members.take("bit") {
            let field = try members.take("of")?.text
            role = .bit(try bit.integer(), of: field, isSet: try members.take("isSet")?.flag ?? true)
        } else if let bits = members.take("bits") {
            let field = try members.take("of")?.text
            role = self.bits(try bits.range(), of: field, try members.take("holding")?.range() ?? (1 as UInt64)...)
        } else {
            guard let field = members.take("field") else {
                throw element.error("a type, a range of types, or one of the members bit, bits and field is expected")
            }
            role = self.field(try field.text, try members.require("numbers").range())
        }
        try members.finish()
        return role
    }

    // Functions, because the ranges must have types.

    private static func types(_ numbers: any RangeExpression<UInt32>) -> Role { .types(numbers) }

    private static func field(_ name: String, _ numbers: any RangeExpression<UInt64>) -> Role { .field(name, numbers) }

    private static func statuses(_ numbers: any RangeExpression<UInt32>) -> FrameLayout.Roles.Statuses {
        .statuses(numbers)
    }

    private static func bits(
        _ bits: any RangeExpression<Int>,
        of field: String?,
        _ numbers: any RangeExpression<UInt64>
    ) -> Role {
        func role(_ bits: some RangeExpression<Int>) -> Role {
            func role(_ numbers: some RangeExpression<UInt64>) -> Role { .bits(bits, of: field, holding: numbers) }
            return role(numbers)
        }
        return role(bits)
    }

    private static func heartbeat(_ element: LayoutElement) throws(LayoutError) -> Frame {
        var members = try LayoutMembers(element)
        var frame = Frame(.request, type: try members.take("type")?.integer() ?? 0)
        if let body = members.take("body") { frame.body = Bytes(try body.bytes) }
        if let fields = members.take("fields") {
            var values = try LayoutMembers(fields)
            for name in values.names {
                let value = try values.require(name)
                if value.value.number != nil {
                    frame[name] = try value.integer(UInt64.self)
                } else {
                    frame[bytes: name] = Bytes(try value.bytes)
                }
            }
        }
        try members.finish()
        return frame
    }

    private static func failureCode(_ element: LayoutElement) throws(LayoutError) -> FailureCode {
        var members = try LayoutMembers(element)
        let (width, order) = (try members.require("body"), try members.order())
        try members.finish()
        switch try width.integer(Int.self) {
        case 1: return .body(UInt8.self, order: order)
        case 2: return .body(UInt16.self, order: order)
        case 4: return .body(UInt32.self, order: order)
        default: throw width.error("a code is 1, 2 or 4 bytes wide")
        }
    }

    private static func retryAfter(_ element: LayoutElement) throws(LayoutError) -> RetryAfterField {
        var members = try LayoutMembers(element)
        let field: RetryAfterField
        if let name = members.take("seconds") {
            field = .seconds(in: try name.text)
        } else {
            field = .milliseconds(in: try members.require("milliseconds").text)
        }
        try members.finish()
        return field
    }

    private static func repeated(_ element: LayoutElement) throws(LayoutError) -> RepeatedField {
        if element.value.text == "type" { return .type }
        var members = try LayoutMembers(element)
        let name = try members.require("field").text
        try members.finish()
        return .field(name)
    }
}
