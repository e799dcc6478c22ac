import Trunkline
import TrunklineDiagnostics

enum Watcher: String, CaseIterable {
    case nothing
    case log
    case failures
    case observer
    case queued
    case recorder
    case bodies
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
