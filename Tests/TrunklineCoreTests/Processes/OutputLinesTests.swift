import Testing

@testable import TrunklineCore
@testable import TrunklineIO

@Suite struct OutputLinesTests {
    private let start = Instant(nanoseconds: 5)

    @Test func bytesAreSplitIntoLinesAtEverySplit() {
        let text = Array("one\ntwo\r\n\nthree".utf8)
        for cut in 0...text.count {
            var lines = OutputLines()
            let found =
                lines.append(text[..<cut], at: start) + lines.append(text[cut...], at: start) + lines.finish(at: start)
            #expect(found.map(\.text) == ["one", "two", "three"])
            #expect(found.allSatisfy { $0.omitted == 0 })
        }
    }

    @Test func aLongLineIsCut() {
        var lines = OutputLines()
        let long = String(repeating: "a", count: 1023) + "é" + String(repeating: "b", count: 100_000)
        let found = lines.append("\(long)\nshort\n".utf8, at: start)
        #expect(found.map(\.text) == [String(repeating: "a", count: 1023) + " …", "short"])
        let exact = String(repeating: "c", count: 1024)
        #expect(lines.append("\(exact)\n".utf8, at: start).map(\.text) == [exact])
    }

    @Test func controlCharactersAndInvalidBytesAreEscaped() {
        var lines = OutputLines()
        let found = lines.append([0x1B, 0x5B, 0x33, 0x31, 0x6D, 0xFF, 0x41, 0x0A], at: start)
        #expect(found.map(\.text) == ["\\u{1b}[31m\u{FFFD}A"])
    }

    @Test func linesBeyondTheLimitAreCounted() {
        var lines = OutputLines()
        let many = String(repeating: "x\n", count: 50)
        #expect(lines.append(many.utf8, at: start).count == 20)
        #expect(lines.append("y\n".utf8, at: start.advanced(by: .milliseconds(999))).isEmpty)
        let later = lines.append("z\nz\n".utf8, at: start.advanced(by: .seconds(1)))
        #expect(later == [OutputLines.Line("z", omitted: 31), OutputLines.Line("z")])
        #expect(lines.finish(at: start.advanced(by: .seconds(2))).isEmpty)
    }

    @Test func theEndTellsWhatWasLeftOut() {
        var lines = OutputLines()
        _ = lines.append((1...61).map { "\($0)\n" }.joined().utf8, at: start)
        let end = [OutputLines.Line("57", omitted: 36)] + (58...61).map { OutputLines.Line("\($0)") }
        #expect(lines.finish(at: start) == end)
        #expect(lines.finish(at: start).isEmpty)
        _ = lines.append((1...22).map { "\($0)\n" }.joined().utf8, at: start.advanced(by: .seconds(1)))
        #expect(lines.finish(at: start.advanced(by: .seconds(1))).map(\.text) == ["21", "22"])
    }

    /// Lines that are left out are escaped, and cut, when they are reported.
    @Test func whatWasLeftOutIsEscaped() {
        var lines = OutputLines()
        _ = lines.append(String(repeating: "x\r\n", count: 20).utf8, at: start)
        let long = String(repeating: "a", count: 1023) + "é"
        #expect(lines.append("\r\n\n\(long)\n\u{1b}[0m\n".utf8, at: start).isEmpty)
        #expect(lines.append([0xFF], at: start).isEmpty)
        let texts = [String(repeating: "a", count: 1023) + " …", "\\u{1b}[0m", "\u{FFFD}"]
        #expect(lines.finish(at: start).map(\.text) == texts)
    }

    @Test func exitsAreReadFromTheStatusOfTheSystem() {
        #expect(ProcessExit(waitStatus: 0) == .status(0))
        #expect(ProcessExit(waitStatus: 0x0300) == .status(3))
        #expect(ProcessExit(waitStatus: 0xFF00) == .status(255))
        #expect(ProcessExit(waitStatus: 9) == .signal(9))
        #expect(ProcessExit(waitStatus: 0x8B) == .signal(11))  // with a core dump
        #expect(
            "\(ProcessExit.status(3)), \(ProcessExit.signal(9)), \(ProcessExit.signal(40))"
                == "exit status 3, signal 9 (SIGKILL), signal 40"
        )
        #expect("\(TransportError.exited(.signal(9)))" == "exited: the child process ended: signal 9 (SIGKILL)")
        #expect(TransportError.exited(.status(1)).exit == .status(1))
        #expect(DisconnectCause(TransportError.exited(.status(0))) == .exited)
    }
}
