/// Descriptions contain neither the user name nor the password.
package struct ProxyCredentials: Sendable, Hashable, CustomStringConvertible, CustomReflectable {
    let username: String
    let password: String

    init(username: String, password: String) { (self.username, self.password) = (username, password) }

    package var description: String { "(redacted)" }
    package var customMirror: Mirror { Mirror(self, children: [], displayStyle: .struct) }
}
