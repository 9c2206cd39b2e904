import GatewayHTTP
import Testing

@testable import GatewayApp

@Suite("What doctor says of connections", .timeLimit(.minutes(5)))
struct EndpointRuleTests {
    private let now = UnixTime(seconds: 1_800_000_000)
    private let origin = Origin(scheme: .https, host: "api.example.com", port: 443)

    private func findings(_ outcome: EndpointOutcome, _ role: DoctorEndpoint.Role = .upstream) -> [DoctorFinding] {
        EndpointRule.findings(of: DoctorEndpoint(role, origin, users: ["box", "docs"]), outcome, at: now)
    }

    private func seen(_ names: [String], from start: Int64 = -100, to end: Int64 = 100) -> SeenCertificate {
        SeenCertificate(names: names, start: now + .seconds(start * 86_400), end: now + .seconds(end * 86_400))
    }

    @Test func aConnectionIsOneLinePerRouteOneForTheNameAndOneForTheCertificate() {
        let end = now + .seconds(61 * 86_400)
        let found = findings(.connected(.milliseconds(12), certificateEnd: end))
        #expect(found.map(\.group) == [.names, .tls, .upstreams, .upstreams])
        #expect(found.map(\.subject) == ["api.example.com", "https://api.example.com", "box", "docs"])
        #expect(found.allSatisfy { $0.level == .ok && $0.remedy == nil && $0.command == nil })
        #expect(found[1].text.hasSuffix("in 61d"))
        #expect(found[2].text.contains("no request was sent"))
    }

    @Test(arguments: [(Origin.Scheme.http, true), (.https, false)])
    func aProxyAnswersForAnUpstreamWithoutTLS(_ scheme: Origin.Scheme, _ isOnlyTheProxy: Bool) throws {
        let origin = Origin(scheme: scheme, host: "api.example.com", port: 80)
        let endpoint = DoctorEndpoint(.upstream, origin, users: ["box"], through: "http://p.example:3128")
        let found = EndpointRule.findings(of: endpoint, .connected(.milliseconds(3), certificateEnd: nil), at: now)
        let text = try #require(found.first { $0.group == .upstreams }).text
        #expect(text.contains("not seen, because it is behind the proxy http://p.example:3128") == isOnlyTheProxy)
    }

    @Test func aCertificateThatEndsSoonIsAWarning() {
        let soon = findings(.connected(.zero, certificateEnd: now + .seconds(13 * 86_400)))
        #expect(soon.first { $0.group == .tls }?.level == .warning)
    }

    struct Case: CustomTestStringConvertible, Sendable {
        let cause: EndpointOutcome.Cause
        let group: DoctorFinding.Group
        let says: String

        var testDescription: String { "\(cause)" }
    }

    @Test(
        "one cause is an error in one group, with what to do",
        arguments: [
            Case(cause: .nameUnknown, group: .names, says: "cannot be resolved"),
            Case(cause: .nameOverdue, group: .names, says: "not resolved in time"),
            Case(cause: .nameProhibited, group: .names, says: "link-local"),
            Case(cause: .refused, group: .upstreams, says: "does not accept connections"),
            Case(cause: .overdue, group: .upstreams, says: "did not answer in time"),
            Case(cause: .exhausted, group: .upstreams, says: "no file descriptors"),
            Case(cause: .noHTTP, group: .upstreams, says: "does not speak HTTP"),
            Case(cause: .handshake, group: .tls, says: "handshake failed"),
            Case(cause: .wrongKey("sha256/AAAA"), group: .tls, says: "sha256/AAAA"),
            Case(cause: .certificate(nil), group: .tls, says: "does not trust"),
        ]
    )
    func oneCauseIsAnErrorInOneGroup(_ example: Case) {
        let found = findings(.failed(example.cause))
        let errors = found.filter { $0.level == .error }
        #expect(Set(errors.map(\.group)) == [example.group])
        #expect(errors.allSatisfy { $0.text.contains(example.says) && $0.remedy != nil })
        // Each route has its line, whatever the cause.
        #expect(found.filter { $0.group == .upstreams }.map(\.subject) == ["box", "docs"])
    }

    @Test(arguments: [(DoctorEndpoint.Role.upstream, "the routes box, docs"), (.authority, "the credential")])
    func anAlertIsNamedWithTheCertificateThatItIsAbout(_ role: DoctorEndpoint.Role, _ owner: String) throws {
        let alert = try #require(TLSAlert(in: "OPENSSL_internal:TLSV1_ALERT_CERTIFICATE_REQUIRED at x:1"))
        let error = try #require(findings(.failed(.alert(alert)), role).first { $0.level == .error })
        #expect(error.group == .tls)
        #expect(error.text == "the server refused the TLS connection with the alert certificate_required")
        #expect(error.remedy == "It requires a client certificate (tls.certificate of \(owner)).")
    }

    @Test func aRefusedCertificateIsExplainedByWhatItSays() {
        func text(_ seen: SeenCertificate) -> String {
            findings(.failed(.certificate(seen))).first { $0.group == .tls }?.text ?? ""
        }
        #expect(text(seen(["api.example.com"], to: -1)).hasPrefix("the certificate expired on "))
        #expect(text(seen(["api.example.com"], from: 1)).hasPrefix("the certificate is not valid before "))
        #expect(text(seen(["other.example.com", "x.test"])) == "the certificate is for other.example.com, x.test")
        #expect(text(seen([])) == "the certificate is for no name")
        #expect(text(seen(["*.example.com"])).contains("does not trust"))
        #expect(text(seen(["API.example.com"])).contains("does not trust"))
    }

    @Test func theRemedyForAForeignAuthorityFitsTheRole() {
        func remedy(_ role: DoctorEndpoint.Role) -> String? {
            findings(.failed(.certificate(nil)), role).first { $0.group == .tls }?.remedy
        }
        #expect(remedy(.upstream)?.contains("tls.ca of the routes box, docs") == true)
        #expect(remedy(.authority)?.contains("update-ca-certificates") == true)
    }

    @Test func anAuthorityHasOneLine() {
        let found = findings(.failed(.refused), .authority).filter { $0.group == .authorities }
        #expect(found.map(\.subject) == ["https://api.example.com"])
        #expect(found.first?.command == "curl -sv --max-time 5 -o /dev/null https://api.example.com/")
    }

    @Test(arguments: [EndpointOutcome.Cause.handshake, .certificate(nil), .noHTTP, .refused])
    func aProxyOnTheWayIsNamed(_ cause: EndpointOutcome.Cause) {
        let endpoint = DoctorEndpoint(.authority, origin, users: ["a"], through: "http://p.example:3128")
        let found = EndpointRule.findings(of: endpoint, .failed(cause), at: now)
        let errors = found.filter { $0.level == .error }
        #expect(!errors.isEmpty && errors.allSatisfy { $0.text.contains("through the proxy http://p.example:3128") })
        // What the command of such a finding would reach directly is not what the gateway reaches.
        #expect(found.allSatisfy { $0.group != .names && $0.command == nil })
    }

    @Test func anAddressHasNoNameToResolve() {
        let endpoint = DoctorEndpoint(.upstream, Origin(scheme: .http, host: "127.0.0.1", port: 80), users: ["a"])
        let found = EndpointRule.findings(of: endpoint, .connected(.zero, certificateEnd: nil), at: now)
        #expect(found.map(\.group) == [.upstreams])
    }
}

@Suite("What doctor says of the clock", .timeLimit(.minutes(5)))
struct ClockRuleTests {
    private func findings(_ ahead: Int64...) -> [DoctorFinding] {
        ClockRule.findings(
            of: ahead.enumerated().map { number, seconds in
                let origin = Origin(scheme: .https, host: "a\(number).test", port: 443)
                return ClockRule.Reading(authority: origin, ahead: .seconds(seconds))
            }
        )
    }

    @Test func smallDifferencesAreNone() {
        #expect(findings(0, 5, -5).map(\.level) == [.ok, .ok, .ok])
    }

    @Test func aLargerOneIsAWarningAndFromAMinuteOnAnError() {
        #expect(findings(6).map(\.level) == [.warning])
        #expect(findings(-59).map(\.level) == [.warning])
        #expect(findings(-60).map(\.level) == [.error])
        #expect(findings(600).first?.text == "this machine's clock is 600 s ahead of the authorization server's")
        #expect(findings(-600).first?.text == "this machine's clock is 600 s behind the authorization server's")
        #expect(findings(600).first?.command == "timedatectl set-ntp true")
    }

    @Test func whereAnotherAuthorityAgreesTheClockIsNotOurs() {
        let found = findings(600, 1)
        #expect(found.map(\.level) == [.warning, .ok])
        #expect(found.first?.command == nil)
    }

    @Test func withoutAnAuthorityNothingIsSaid() {
        #expect(findings().map(\.level) == [.skipped])
    }

    @Test func theTimeOfTheAnswerIsNotTakenForADifference() {
        let origin = Origin(scheme: .https, host: "a.test", port: 443)
        let sent = UnixTime(milliseconds: 1_000_400)
        let reading = ClockRule.Reading(
            authority: origin,
            date: UnixTime(seconds: 1002),
            sent: sent,
            received: sent + .seconds(4)
        )
        #expect(reading.ahead == .milliseconds(-100))
    }
}
