import Foundation
import GatewayHTTP
import Testing

@testable import GatewayConfiguration

@Suite("Diagnostic report", .timeLimit(.minutes(5)))
struct DiagnosticReportTests {
    private static let files = [ConfigDocument.File(name: "gateway.yaml", path: "/gateway.yaml", lines: [])]

    private func json(_ report: DiagnosticReport) throws -> JSONValue {
        try #require(JSONValue(Array(JSONEncoder().encode(report))))
    }

    @Test func aPlaceIsGivenForEachDiagnostic() throws {
        let span = SourceSpan(file: 0, line: 3, column: 5, length: 4)
        let path = ConfigPath.root.appending("routes").appending("box")
        let related = ConfigDiagnostic.Related("first used here", at: SourceSpan(file: 9, line: 1, column: 1))
        let report = try json(
            DiagnosticReport(
                [
                    ConfigDiagnostic(.error, "wrong", at: span, path: path, related: related),
                    ConfigDiagnostic(.warning, "odd", at: span),
                ],
                files: Self.files
            )
        )
        #expect(report["valid"] == .bool(false))
        #expect(report["errors"] == .number(1))
        #expect(report["warnings"] == .number(1))
        guard case .array(let diagnostics)? = report["diagnostics"] else { throw Missing() }
        #expect(diagnostics.count == 2)
        #expect(diagnostics[0]["file"]?.string == "gateway.yaml")
        #expect(diagnostics[0]["line"] == .number(3))
        #expect(diagnostics[0]["column"] == .number(5))
        #expect(diagnostics[0]["path"]?.string == "routes.box")
        #expect(diagnostics[0]["related"]?["file"]?.string == "?")
        #expect(diagnostics[1]["severity"]?.string == "warning")
    }

    @Test func warningsAloneAreNoFailure() throws {
        let warning = ConfigDiagnostic(.warning, "odd", at: SourceSpan(file: 0, line: 1, column: 1))
        var report = DiagnosticReport([warning], files: Self.files)
        #expect(report.isValid)
        report.add("cannot be read", in: "cert.pem")
        #expect(!report.isValid)
        guard case .array(let diagnostics)? = try json(report)["diagnostics"] else { throw Missing() }
        #expect(diagnostics.last?["file"]?.string == "cert.pem")
        #expect(diagnostics.last?["line"] == nil)
    }

    private struct Missing: Error {}
}
