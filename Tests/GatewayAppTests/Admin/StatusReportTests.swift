import Testing

@testable import GatewayApp
@testable import GatewayTokens

@Suite("Status report", .timeLimit(.minutes(5)))
struct StatusReportTests {
    private static func token(_ name: String, _ state: TokenStatus.State = .valid) -> TokenStatus {
        TokenStatus(
            credential: name,
            strategy: "box_ccg",
            subject: nil,
            state: state,
            generation: 1,
            isRenewable: true
        )
    }

    private static func route(_ name: String, _ credential: String?) -> RouteStatus {
        RouteStatus(
            name: name,
            upstream: "https://\(name).example",
            path: "/\(name)",
            hosts: [],
            credential: credential,
            strategy: "box_ccg"
        )
    }

    private static let report = StatusReport(
        readiness: Readiness(isReady: true),
        tokens: [token("box"), token("box[user 42]", .loginRequired), token("mail"), token("boxes")],
        expirations: [],
        routes: [route("files", "box"), route("ada", "box[user 42]"), route("mail", "mail"), route("open", nil)]
    )

    private func names(_ name: String) -> ([String], [String])? {
        Self.report.narrowed(to: name).map { ($0.tokens.map(\.credential), $0.routes.map(\.name)) }
    }

    @Test func aCredentialHasItsRoutesAndWhatIsMadeFromIt() throws {
        let found = try #require(names("box"))
        #expect(found.0 == ["box", "box[user 42]"])
        #expect(found.1 == ["files", "ada"])
    }

    @Test func aRouteHasItsCredential() throws {
        let found = try #require(names("ada"))
        #expect(found.0 == ["box[user 42]"])
        #expect(found.1 == ["ada"])
        #expect(try #require(names("open")).0 == [])
    }

    @Test func aNameOfBothMeansBoth() throws {
        let found = try #require(names("mail"))
        #expect(found.0 == ["mail"])
        #expect(found.1 == ["mail"])
    }

    @Test func anUnknownNameIsNothing() { #expect(names("bix") == nil) }

    @Test func whatNeedsAPersonIsNamed() { #expect(Self.report.needing == ["box[user 42]"]) }

    @Test func whatIsTriedAgainByItselfNeedsNobody() {
        var report = Self.report
        report.tokens = [Self.failing("box", needsPerson: false), Self.failing("mail", needsPerson: true)]
        #expect(report.needing == ["mail"])
    }

    @Test func thePageCountsTheSame() {
        var report = Self.report
        report.readiness = Readiness(.degraded, reasons: ["the configuration was refused: g.yaml:3:1"])
        report.tokens = [Self.failing("mail", needsPerson: false), Self.token("box", .loginRequired)]
        let items = Attention.items(readiness: report.readiness, tokens: report.tokens, expirations: [])
        #expect(report.needing == ["box", "the configuration was refused"])
        #expect(items.filter(\.needsPerson).map(\.name) == report.needing)
        #expect(report.narrowed(to: "mail")?.needing == [])
    }

    @Test func aMissingScopeNeedsAPersonAfterWhatFails() {
        var report = Self.report
        var lacking = Self.token("mail")
        lacking.missingScopes = ["write"]
        lacking.action = "authgateway login mail --scope write"
        report.tokens = [lacking, Self.token("box", .loginRequired)]
        let items = Attention.items(readiness: Readiness(.ready), tokens: report.tokens, expirations: [])
        #expect(items.map(\.name) == ["box", "mail"] && items.last?.severity == .soon)
        #expect(items.last?.title == "mail: its token lacks a scope" && items.last?.command == lacking.action)
        #expect(report.needing == ["box", "mail"])
        #expect(!lacking.needsAttention, "requests are served, so the readiness does not change")
        lacking.failing = Self.failing("mail", needsPerson: false).failing
        #expect(Attention.items(readiness: Readiness(.ready), tokens: [lacking], expirations: []).count == 1)
    }

    private static func failing(_ name: String, needsPerson: Bool) -> TokenStatus {
        var token = token(name)
        token.failing = TokenStatus.Failing(
            since: "2026-11-25T12:00:00.000Z",
            reason: "No.",
            remedy: "Wait.",
            needsPerson: needsPerson
        )
        return token
    }
}
