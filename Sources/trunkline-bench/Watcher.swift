import Trunkline
import TrunklineDiagnostics

/// What watches the client under load.
enum Watcher: String, CaseIterable {
    case nothing
    /// A log, to nowhere.
    case log
    /// An observer that counts failures on the event loop.
    case failures
    /// An observer that counts all events on the event loop.
    case observer
    /// The same observer, by a queue.
    case queued
    /// A flight recorder of 1 MiB: calls, frame headers and events.
    case recorder
    /// A flight recorder that also keeps bodies.
    case bodies
    /// A log, an observer of all events on the event loop, and a recorder.
    case all

    func watch(_ options: inout ClientOptions) {
        switch self {
        case .nothing, .log, .recorder, .bodies: break
        case .failures: options.observers = [CountingObserver(.failures)]
        case .observer, .all: options.observers = [CountingObserver()]
        case .queued: options.observers = [CountingObserver(delivery: .queued())]
        }
        if self == .log || self == .all { options.logging = ClientLogging { _ in } }
        if self == .recorder || self == .bodies || self == .all {
            var recorder = RecorderOptions.ring()
            if self == .bodies { recorder.bodies = .all }
            options.recorder = recorder
        }
    }
}
