import Foundation

/// The recorded API (`.ci/api`), read for what a user can pass to the package: numbers, durations and ranges of them.
struct APIList: Sendable {
    /// One string for each public declaration that takes such values: a function with the parameters that do, a
    /// property, or what a conforming type returns.
    ///
    ///     Backoff.init(minimum: Duration, base: Duration, factor: Double, cap: Duration)
    ///     CachingSender.Options.maximumBytes: Int
    ///     GoAwayCodec.retryAfter -> Duration?
    let declarations: Set<String>

    static let recorded = APIList()

    private init() {
        let folder = URL(filePath: #filePath).appending(path: "../../../.ci/api").standardized
        let files = (try? FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)) ?? []
        let texts = files.compactMap { try? String(contentsOf: $0, encoding: .utf8) }
        declarations = Set(texts.flatMap { $0.split(separator: "\n") }.compactMap { Self.declaration(in: String($0)) })
    }

    /// Returns the declaration in a line of the list, `Owner | words`, if it takes values.
    static func declaration(in line: String) -> String? {
        guard let bar = line.range(of: "| ") else { return nil }
        let owner = line[..<bar.lowerBound].trimmingCharacters(in: .whitespaces)
        var words = line[bar.upperBound...]
        // The members that a conforming type has to implement.
        let isRequirement = words.hasPrefix("requirement ")
        if words.hasPrefix("default ") { return nil }
        while let modifier = modifiers.first(where: { words.hasPrefix($0 + " ") }) {
            words = words.dropFirst(modifier.count + 1)
        }
        guard let end = words.firstIndex(where: { "(<:".contains($0) }) else { return nil }
        let own = words[..<end].replacing(#/^(func|var|case) /#, with: "").replacing("`", with: "")
        let name = owner.isEmpty ? String(own) : "\(owner).\(own)"
        if words.hasPrefix("var ") {
            let type = words[end...].dropFirst(2)
            if !isRequirement, type.contains("{ get"), !type.contains("set }") { return nil }
            let bare = String(type.prefix { $0 != "{" }).trimmingCharacters(in: .whitespaces)
            return takesValue(bare) ? "\(name): \(bare)" : nil
        }
        guard !words.hasPrefix("let "), let open = words[end...].firstIndex(of: "(") else { return nil }
        let (parameters, result) = split(words[open...].dropFirst())
        if isRequirement { return takesValue(result) ? "\(name) -> \(result)" : nil }
        // The value that a subscript sets.
        if words.hasPrefix("subscript") {
            let value = result.replacing(" { get set }", with: "")
            return value != result && takesValue(value) ? "\(name) -> \(value)" : nil
        }
        let values = parameters.compactMap(value(of:))
        return values.isEmpty ? nil : "\(name)(\(values.joined(separator: ", ")))"
    }

    private static let modifiers = [
        "requirement", "extension", "nonisolated(nonsending)", "nonisolated", "mutating", "convenience", "indirect",
        "static", "final", "@discardableResult",
    ]

    /// Returns the label and the type of a parameter that takes a value.
    private static func value(of parameter: String) -> String? {
        let words = parameter.replacing(#/ = .*$/#, with: "")
        guard let colon = words.range(of: ": ") else { return takesValue(words) ? "_: \(words)" : nil }
        let label = words[..<colon.lowerBound].prefix { $0 != " " }
        // The line to report.
        if label == "file" || label == "line" { return nil }
        let type = String(words[colon.upperBound...])
        return takesValue(type) ? "\(label): \(type)" : nil
    }

    /// Whether a value of this type is or contains numbers or durations. Bytes are content, and closures no values.
    private static func takesValue(_ type: String) -> Bool {
        guard !type.contains("->"), !type.hasSuffix(".Type") else { return false }
        return type.replacing(#/\[UInt8\]|<UInt8>|UInt8\.\.\./#, with: "").contains(
            #/\b(Duration|Int|Int(8|16|32|64|128)|UInt|UInt(8|16|32|64|128)|Double|Float|SerialNumber|Value)\b/#
        )
    }

    /// Splits `words`, which begin after an opening parenthesis, into the parameters and the result type.
    private static func split(_ words: Substring) -> (parameters: [String], result: String) {
        var (depth, parameters, last) = (0, [String](), "")
        var previous: Character = " "
        for (offset, character) in words.enumerated() {
            // Neither an arrow nor an operator.
            let isBracket = !"<> -".contains(previous)
            if "([{".contains(character) || (character == "<" && isBracket) { depth += 1 }
            if ")]}".contains(character) || (character == ">" && previous != "-" && previous != " ") { depth -= 1 }
            previous = character
            if depth < 0 {
                let rest = words.dropFirst(offset + 1)
                let result = rest.range(of: "-> ").map { String(rest[$0.upperBound...]) } ?? ""
                return ((parameters + [last]).map { $0.trimmingCharacters(in: .whitespaces) }, result)
            }
            if depth == 0, character == "," {
                parameters.append(last)
                last = ""
            } else {
                last.append(character)
            }
        }
        return (parameters, "")
    }
}
