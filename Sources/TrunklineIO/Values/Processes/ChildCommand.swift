package struct ChildCommand: Hashable, Sendable, CustomStringConvertible {
    let executable: String
    let arguments: [String]
    let environment: [String: String]
    let inheritsEnvironment: Bool
    let workingDirectory: String?

    init(
        _ executable: String,
        _ arguments: [String] = [],
        environment: [String: String] = [:],
        inheritsEnvironment: Bool = true,
        workingDirectory: String? = nil
    ) {
        (self.executable, self.arguments, self.environment) = (executable, arguments, environment)
        (self.inheritsEnvironment, self.workingDirectory) = (inheritsEnvironment, workingDirectory)
    }

    var mistake: String? {
        if executable.isEmpty { return "the executable is empty" }
        if workingDirectory?.isEmpty == true { return "the working directory is empty" }
        if environment.keys.contains(where: { $0.isEmpty || $0.contains("=") }) {
            return "the name of an environment variable is empty or contains \"=\""
        }
        let texts = [executable, workingDirectory ?? ""] + arguments + environment.keys + environment.values
        return texts.contains(where: \.hasZeroByte) ? "a text of the command contains a NUL byte" : nil
    }

    /// The environment may contain secrets, so it is not shown.
    package var description: String {
        let words = [executable] + arguments
        return "command(\(words.map(Self.quoted).joined(separator: " ").escaped()))"
    }

    private static func quoted(_ word: String) -> String {
        let isPlain =
            !word.isEmpty && !word.unicodeScalars.contains { $0 == " " || $0 == "\"" || $0 == ")" || $0 == "(" }
        return isPlain ? word : "\"" + word + "\""
    }
}
