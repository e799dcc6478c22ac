/// How a child process ended. See ``Endpoint/command(_:_:environment:inheritsEnvironment:workingDirectory:)``.
public enum ProcessExit: Sendable, Hashable, CustomStringConvertible {
    /// The process returned from `main` or called `exit`, with this status, from 0 to 255. 0 means success.
    case status(UInt8)
    /// A signal with this number ended the process: it crashed, or another process ended it.
    case signal(UInt8)

    /// The exit in words, such as `exit status 3` or `signal 9 (SIGKILL)`.
    public var description: String {
        switch self {
        case .status(let status): "exit status \(status)"
        case .signal(let number): "signal \(number)" + (Self.name(ofSignal: number).map { " (\($0))" } ?? "")
        }
    }

    private static func name(ofSignal number: UInt8) -> String? {
        switch number {
        case 1: "SIGHUP"
        case 2: "SIGINT"
        case 3: "SIGQUIT"
        case 4: "SIGILL"
        case 5: "SIGTRAP"
        case 6: "SIGABRT"
        case 8: "SIGFPE"
        case 9: "SIGKILL"
        case 11: "SIGSEGV"
        case 13: "SIGPIPE"
        case 14: "SIGALRM"
        case 15: "SIGTERM"
        default: nil
        }
    }

    init(waitStatus: Int32) {
        let signal = UInt8(truncatingIfNeeded: waitStatus & 0x7f)
        self = signal == 0 ? .status(UInt8(truncatingIfNeeded: waitStatus >> 8)) : .signal(signal)
    }
}

extension TransportError {
    /// How the child process of the link ended; `nil` if the error is another one.
    public var exit: ProcessExit? { if case .exited(let exit) = code { exit } else { nil } }

    package static func exited(_ exit: ProcessExit) -> TransportError {
        TransportError(.exited(exit), "the child process ended: \(exit)")
    }
}
