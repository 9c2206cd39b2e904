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
}
