import Testing

@testable import GatewayApp
@testable import GatewayTools

@Suite("What doctor prints", .timeLimit(.minutes(5)))
struct DoctorTextTests {
    private static func text(_ level: DoctorFinding.Level, omitting count: Int) -> String {
        let findings = (1...DoctorReport.mostShown + count).map {
            DoctorFinding(.credentials, level, "c\($0)", "answers after \($0) ms")
        }
        return DoctorText(report: DoctorReport(findings), style: TextStyle()).text()
    }

    @Test(
        arguments: [(.error, 12, "12 more errors"), (.warning, 1, "1 more warning"), (.ok, 2, "2 more ok lines")]
            as [(DoctorFinding.Level, Int, String)]
    )
    func whatIsLeftOutIsCounted(_ level: DoctorFinding.Level, _ count: Int, _ words: String) {
        #expect(
            Self.text(level, omitting: count).contains("  … and \(words). To see all:\n    authgateway doctor --json\n")
        )
    }

    @Test func whereLinesStandForManyItSaysHowToSeeEach() {
        let findings = (1...100).map {
            DoctorFinding(.credentials, .ok, "c\($0)", "ends in \($0)s", gathered: "valid")
        }
        let text = DoctorText(report: DoctorReport(findings), style: TextStyle()).text()
        #expect(text.contains("c1, c2, c3, c4, c5 and 95 more: valid\n"))
        #expect(text.contains("To see each:\n  authgateway doctor --json\n\nno problem\n"))
        let few = DoctorText(report: DoctorReport(Array(findings.prefix(3))), style: TextStyle()).text()
        #expect(few.contains("c3: ends in 3s\n") && !few.contains("--json"))
    }
}
