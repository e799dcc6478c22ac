import Testing
import Trunkline

@testable import TrunklineTesting

/// The conformance kit finds every mistake and reports it under the right rule.
struct BrokenCodecTests {
    private func check(_ mistake: BrokenCodec.Mistake) -> CodecConformance.Report {
        let codec = BrokenCodec(mistake)
        var kit = CodecConformance(of: codec, samples: BrokenCodec.samples, maximumFrameSize: BrokenCodec.limit)
        kit.relaxed = BrokenCodec(mistake, maximumBody: 200)
        kit.garbageInputs = 500
        return kit.check()
    }

    @Test func codecWithoutMistakeBreaksNoRule() {
        let report = check(.none)
        #expect(report.violations.isEmpty && report.unchecked.isEmpty, "\(report)")
    }

    @Test(arguments: [
        (BrokenCodec.Mistake.splitState, CodecConformance.Rule.split), (.offByOne, .truncation),
        (.impatient, .truncation), (.brittle, .truncation), (.acceptsHalf, .truncation), (.unlimitedLength, .limit),
        (.lateLimit, .limit),
        (.unlimitedBody, .limit), (.swallowsAll, .limit), (.losesTail, .merge), (.sharedState, .copies),
        (.emptyFrames, .progress), (.counts, .determinism), (.absoluteLength, .append), (.ignoresConstant, .refusal),
        (.injection, .roundTrip), (.narrowSerial, .matching), (.wrongSerial, .matching), (.pingIsRequest, .heartbeat),
        (.falseAlarm, .heartbeat), (.wrongCancel, .cancellation), (.lossy, .roundTrip), (.wrongBytes, .vector),
        (.wrongWindow, .window),
    ])
    func mistakeIsReportedByItsRule(mistake: BrokenCodec.Mistake, rule: CodecConformance.Rule) {
        let report = check(mistake)
        #expect(report.violations.contains { $0.rule == rule }, "\(mistake): \(report)")
    }

    /// Regression: this mistake was reported as state that copies share, which a codec without state cannot have. The
    /// reason was that a copy was the first to get an incomplete frame. Nothing else was checked then.
    @Test func rejectingAnIncompleteFrameIsNotReportedAsSharedState() {
        let report = check(.brittle)
        #expect(report.counts[.copies] == nil, "\(report)")
        #expect(report.description.contains("malformed: no end instead of waiting for the rest"), "\(report)")
    }

    /// A trap cannot be reported afterwards, so the kit announces each input before it feeds it.
    @Test func theInputIsAnnouncedBeforeATrap() async throws {
        let result = await aside {
            await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
                let codec = BrokenCodec(.traps)
                var kit = CodecConformance(of: codec, samples: BrokenCodec.samples, maximumFrameSize: BrokenCodec.limit)
                kit.announcesInputs = true
                _ = kit.check()
            }
        }
        let lines = String(decoding: try #require(result).standardErrorContent, as: UTF8.self).split(separator: "\n")
        let last = lines.last { $0.hasPrefix("server decodes ") || $0.hasPrefix("client decodes ") }
        #expect(last?.hasPrefix("server decodes sample 1 with 104 bytes byte by byte: 42c864787878") == true)
    }
}
