/// Which pushes a stream receives. See ``RequestSender/pushes(_:buffering:)``.
public struct PushSelection: Sendable {
    enum Rule: Sendable {
        case all
        case type(UInt32)
        case matching(@Sendable (PushMessage) -> Bool)
        case key(PushKey)

        /// For metrics and the log. A key may be a secret, and there may be many.
        var name: String {
            switch self {
            case .all: "all"
            case .type(let type): "type 0x\(String(type, radix: 16))"
            case .matching: "where"
            case .key: "key"
            }
        }
    }

    let rule: Rule

    /// All pushes.
    public static let all = PushSelection(rule: .all)

    /// The pushes of one type. See ``RequestSender/pushes(ofType:buffering:)``.
    public static func ofType(_ type: UInt32) -> PushSelection { PushSelection(rule: .type(type)) }

    /// The pushes for which a closure returns true. See ``RequestSender/pushes(where:buffering:)``.
    public static func `where`(_ isWanted: @escaping @Sendable (PushMessage) -> Bool) -> PushSelection {
        PushSelection(rule: .matching(isWanted))
    }

    /// The pushes with one key. See ``RequestSender/pushes(forKey:buffering:)``.
    public static func forKey(_ key: PushKey) -> PushSelection { PushSelection(rule: .key(key)) }
}
