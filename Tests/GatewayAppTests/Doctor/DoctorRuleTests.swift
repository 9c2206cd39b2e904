import FoundationEssentials
import GatewayConfiguration
import GatewayFiles
import GatewayHTTP
import GatewayTokenStores
import GatewayTokens
import Testing

@testable import GatewayApp
@testable import GatewayProxy

@Suite("What doctor says of this machine", .timeLimit(.minutes(5)))
struct DoctorRuleTests {
    // MARK: Listeners

    private func listener(_ observation: ListenerRule.Observation, running: Bool = false) -> DoctorFinding {
        let address = ListenerPlan.Address.tcp(host: "127.0.0.1", port: 8080)
        return ListenerRule.finding(of: address, "listeners.proxy", observation, isGatewayRunning: running)
    }

    @Test func anAddressIsFreeOrItsHolderCanBeFound() {
        #expect(listener(.free).level == .ok)
        #expect(listener(.own, running: true).level == .ok)
        #expect(listener(.taken).command == "ss -ltnp 'sport = :8080'")
        #expect(listener(.free, running: true).level == .warning)
        for observation in [ListenerRule.Observation.taken, .forbidden, .foreignAddress, .unusable("no")] {
            #expect(listener(observation).level == .error)
            #expect(
                listener(observation).remedy?.contains("change listeners.proxy") ?? false
                    || listener(observation).remedy == "Change listeners.proxy."
            )
        }
    }

    // MARK: Files

    @Test func theStateDirectoryIsTheUsersOwnAndNobodyElseWritesToIt() {
        func level(_ mode: UInt32, isFolder: Bool = true, isOwn: Bool = true) -> DoctorFinding.Level {
            let seen = FileRule.Observation(mode: mode, isFolder: isFolder, isOwn: isOwn)
            return FileRule.stateDirectory("/s", seen).level
        }
        #expect(FileRule.stateDirectory("/s", nil).level == .ok)
        #expect(level(0o700) == .ok)
        #expect(level(0o755) == .ok)
        #expect(level(0o770) == .error)
        #expect(level(0o700, isOwn: false) == .error)
        #expect(level(0o700, isFolder: false) == .error)
    }

    @Test func whatThisUserMayNotCreateIsAnErrorBeforeTheFirstStart() {
        let barrier = FileBarrier(place: "/var/lib", isFolder: true, isOwn: false, user: 65534, code: 13)
        let directory = FileRule.stateDirectory("/var/lib/my gateway", nil, barrier: barrier)
        #expect(directory.level == .error && directory.text.contains("uid 65534"))
        #expect(directory.command == "install -d -m 700 -o 65534 '/var/lib/my gateway'")
        let audit = StorageRule.audit(.barred(barrier), "/var/lib/a.sqlite")
        #expect(audit.level == .error && audit.command == "chown 65534 /var/lib")
        #expect(audit.text.hasSuffix("cannot create files in /var/lib, so the audit log cannot be opened"))
        #expect(StorageRule.store(.barred(barrier), "/var/lib/t.sqlite").level == .error)
        #expect(StorageRule.store(.unseen(.hidden), "/s/t").level == .skipped)
        #expect(StorageRule.audit(.unseen(.noStateDirectory), "/s/a").text.contains("see files"))
    }

    @Test func aKeyIsForItsOwnerAlone() {
        func finding(_ mode: UInt32, isOwn: Bool = true) -> DoctorFinding? {
            FileRule.secret("/s/my key", FileRule.Observation(mode: mode, isFolder: false, isOwn: isOwn))
        }
        #expect(FileRule.secret("/s/key", nil) == nil)
        #expect(finding(0o600)?.level == .ok)
        #expect(finding(0o640)?.level == .error)
        #expect(finding(0o604)?.command == "chmod 600 '/s/my key'")
        #expect(finding(0o600, isOwn: false)?.level == .error)
    }

    @Test func aFullDiskIsSaidBeforeItIsFull() {
        #expect(FileRule.room(.audit, "/a", free: 200 << 20) == nil)
        #expect(FileRule.room(.audit, "/a", free: 50 << 20)?.level == .warning)
        #expect(FileRule.room(.store, "/a", free: 10)?.level == .error)
    }

    // MARK: Gateway

    @Test func theRunningGatewayIsReadyOrSaysWhyNot() {
        func levels(_ observation: GatewayRule.Observation) -> [DoctorFinding.Level] {
            GatewayRule.findings(of: observation, stateDirectory: "/s").map(\.level)
        }
        #expect(levels(.stopped) == [.ok])
        #expect(levels(.silent("nobody answers")) == [.error])
        #expect(levels(.hidden) == [.skipped])
        #expect(levels(.running(Readiness(.ready), differences: nil)) == [.ok])
        #expect(levels(.running(Readiness(.ready), differences: [])) == [.ok, .ok])
        #expect(levels(.running(Readiness(.ready), differences: [], hasSandbox: true)) == [.ok, .ok, .ok])
        #expect(
            levels(.running(Readiness(.degraded, reasons: ["x"]), differences: ["routes.a"])) == [.warning, .warning]
        )
        #expect(levels(.running(Readiness(.notReady, reasons: ["x"]), differences: nil)) == [.error])
    }

    // MARK: Configuration

    @Test func whoMayWriteToAFileIsAMatterOfFilesAndTheRestOfTheConfiguration() {
        let place = FilePlace(path: "/etc/g.yaml", kind: .file, mode: 0o664, isOnReadOnlyMount: false)
        guard let mode = FileModeRule.finding(of: place, isStrict: false) else {
            Issue.record("no finding")
            return
        }
        let span = SourceSpan(file: 0, line: 3, column: 7)
        var writable = ConfigDiagnostic(mode.severity, mode.message, at: span)
        writable.command = mode.command
        let file = ConfigDocument.File(name: "g.yaml", path: "/etc/g.yaml", lines: [])
        let report = DiagnosticReport([writable, ConfigDiagnostic(.error, "no such key", at: span)], files: [file])
        let found = ConfigurationRule.findings(of: report, problem: nil, file: "g.yaml", counts: nil)
        #expect(found.map(\.group) == [.files, .configuration, .configuration])
        #expect(found.map(\.level) == [.warning, .error, .skipped])
        #expect(found[0].command == "chmod g-w /etc/g.yaml")
        #expect(!found[0].text.contains("run:"))
        #expect(found[1].subject == "g.yaml:3:7")
        #expect(found[1].command == "authgateway check g.yaml")
    }

    @Test func variablesThatOnlyTheGatewayHasAreNoErrors() {
        let strict = [
            DoctorFinding(.files, .warning, "g.yaml", "others may write"),
            DoctorFinding(.configuration, .error, "g.yaml:3:7", "the environment variable KEY is not set"),
            DoctorFinding(.configuration, .skipped, "g.yaml", "nothing else was checked"),
        ]
        let found = ConfigurationRule.findings(strict, withoutVariablesOf: "g.yaml")
        #expect(found.map(\.level) == [.ok, .warning, .skipped])
        #expect(found[2].text == "only the gateway has it: the environment variable KEY is not set")
    }

    // MARK: Store and audit log

    @Test func aMissingKeyBesideItsDatabaseIsAnError() {
        #expect(StorageRule.store(.missing, "/t").level == .ok)
        #expect(StorageRule.store(.keyMissing("/k"), "/t").remedy?.contains("Restore /k") == true)
        #expect(StorageRule.audit(.keyMissing("/k"), "/a").level == .error)
        #expect(StorageRule.audit(.broken("row 3 was changed"), "/a").command == "authgateway audit verify")
        #expect(StorageRule.audit(.intact(rows: 7), "/a").text.contains("newest 7 events"))
        #expect(StorageRule.audit(.unusable("locked"), "/a").level == .error)
        #expect(StorageRule.store(.notAsked, "helper").level == .skipped)
    }

    // MARK: Services

    @Test func servicesThatWereNotAskedAreAWarning() {
        let finding = WhoAmIRule.unknown("they did not answer within 30s", file: "g.yaml")
        #expect(finding.level == .warning && finding.group == .credentials)
        #expect(finding.subject == "services" && finding.text.contains("30s"))
        #expect(finding.command == "authgateway check --acquire g.yaml")
    }

    // MARK: Report

    @Test func theReportIsInTheOrderOfTheGroupsAndCounts() throws {
        let report = DoctorReport([
            DoctorFinding(.clock, .warning, "c", "late"), DoctorFinding(.configuration, .error, "f", "bad"),
            DoctorFinding(.files, .ok, "d", "fine"),
        ])
        #expect(report.findings.map(\.group) == [.configuration, .files, .clock])
        #expect(!report.isHealthy && report.count(.warning) == 1)
        let encoded = try JSONEncoder().encode(report)
        let json = String(decoding: encoded, as: UTF8.self)
        #expect(json.contains(#""ok":false"#) && json.contains(#""errors":1"#) && json.contains(#""level":"warning""#))
    }

    @Test func whatIsSaidOfManyIsOneLineForPeople() {
        let many = (1...10_000).map { DoctorFinding(.upstreams, .ok, "r\($0)", "accepts connections") }
        let few = (1...3).map { DoctorFinding(.upstreams, .error, "down\($0)", "is down", remedy: "Start it.") }
        let excerpt = DoctorReport(many + few).condensed(.upstreams)
        #expect(excerpt.findings.map(\.subject) == ["r1, r2, r3, r4, r5 and 9995 more", "down1", "down2", "down3"])
        #expect(excerpt.findings.map(\.text) == ["accepts connections", "is down", "is down", "is down"])
        #expect(excerpt.omitted.isEmpty && !excerpt.isGathered)
    }

    /// Those that differ in a detail are one line where they would not fit otherwise, with the advice for the first.
    @Test func manyThatDifferInADetailAreOneLine() {
        func findings(_ count: Int) -> [DoctorFinding] {
            (1...count).map { number in
                DoctorFinding(
                    .names,
                    .error,
                    "u\(number)",
                    "cannot be resolved after \(number) ms",
                    gathered: "cannot be resolved",
                    remedy: "Correct u\(number).",
                    command: "getent ahosts u\(number)"
                )
            }
        }
        let fine = (1...4).map { DoctorFinding(.names, .ok, "v\($0)", "resolves in \($0) ms", gathered: "resolves") }
        let excerpt = DoctorReport(findings(10_000) + fine).condensed(.names)
        #expect(excerpt.isGathered && excerpt.omitted.isEmpty)
        #expect(excerpt.findings.first?.subject == "u1, u2, u3, u4, u5 and 9995 more")
        #expect(excerpt.findings.first?.text == "cannot be resolved")
        #expect(excerpt.findings.first?.remedy == "Correct u1.")
        #expect(excerpt.findings.first?.command == "getent ahosts u1")
        #expect(Array(excerpt.findings.dropFirst()) == fine, "another level has room")
        let few = findings(DoctorReport.mostShown)
        let whole = DoctorReport(few).condensed(.names)
        #expect(whole.findings == few && !whole.isGathered)
    }

    @Test func whatManyShareIsNotInTheJSON() throws {
        let finding = DoctorFinding(.names, .ok, "u", "resolves in 1 ms", gathered: "resolves")
        let json = String(decoding: try JSONEncoder().encode(finding), as: UTF8.self)
        #expect(json.contains("resolves in 1 ms") && !json.contains("gathered"))
    }

    @Test func tenThousandEndpointsAndCredentialsAreAPage() {
        let now = UnixTime(seconds: 0)
        let findings = (0..<10_000).flatMap { number -> [DoctorFinding] in
            let origin = Origin(scheme: .https, host: "u\(number).example.com", port: 443)
            let endpoint = DoctorEndpoint(.upstream, origin, users: ["r\(number)"])
            var status = TokenStatus(
                credential: "c\(number)",
                strategy: "box_ccg",
                subject: nil,
                state: .valid,
                generation: 1,
                isRenewable: true
            )
            status.remainingSeconds = number
            let found: [DoctorFinding] =
                switch number % 4 {
                case 0: EndpointRule.findings(of: endpoint, .failed(.nameUnknown), at: now)
                case 1: EndpointRule.findings(of: endpoint, .failed(.overdue), at: now)
                case 2:
                    EndpointRule.findings(
                        of: endpoint,
                        .connected(
                            .milliseconds(number),
                            certificateEnd: UnixTime(seconds: 10_000_000 + Int64(number))
                        ),
                        at: now
                    )
                default: EndpointRule.unchecked(endpoint, within: .seconds(2))
                }
            return found + [CredentialRule.finding(of: "c\(number)", .status(status), at: now)]
        }
        let report = DoctorReport(findings)
        let excerpts = DoctorFinding.Group.allCases.map(report.condensed)
        let lines = excerpts.flatMap(\.findings)
        #expect(lines.count == 8)
        #expect(excerpts.allSatisfy { $0.omitted.isEmpty })
    }

    @Test func ofManyThatDifferTheFirstAreShownAndNoLevelHidesAnother() {
        let fine = (1...10_000).map { DoctorFinding(.credentials, .ok, "c\($0)", "ends in \($0)d") }
        let bad = DoctorFinding(.credentials, .error, "last", "was refused")
        let excerpt = DoctorReport(fine + [bad]).condensed(.credentials)
        #expect(excerpt.findings.count == DoctorReport.mostShown + 1 && excerpt.findings.last == bad)
        #expect(excerpt.omitted == [.ok: 10_000 - DoctorReport.mostShown])
    }

    @Test func aRemedyNamesAFewOfManyRoutes() {
        let origin = Origin(scheme: .https, host: "api.example.com", port: 443)
        let endpoint = DoctorEndpoint(.upstream, origin, users: (1...10_000).map { "r\($0)" })
        let found = EndpointRule.findings(of: endpoint, .failed(.certificate(nil)), at: UnixTime(seconds: 0))
        let remedy = found.first { $0.group == .tls }?.remedy
        #expect(remedy?.hasSuffix("tls.ca of the routes r1, r2, r3, r4, r5 and 9995 more.") == true)
    }
}

@Suite("What doctor says of a token database", .timeLimit(.minutes(1)))
struct DatabaseRuleTests {
    private func levels(_ change: (inout DatabaseObservation) -> Void) -> [DoctorFinding.Level] {
        var database = DatabaseObservation(serverVersion: "15.3")
        change(&database)
        return DatabaseRule.findings(of: database, "db").map(\.level)
    }

    @Test func aSoundDatabaseHasOneFinding() {
        #expect(levels { _ in } == [.ok])
        #expect(levels { ($0.standbys, $0.synchronousStandbys) = (2, 1) } == [.ok])
    }

    @Test func whatAFailoverLosesIsAWarning() {
        #expect(levels { $0.standbys = 1 } == [.ok, .warning])
        #expect(levels { $0.synchronousCommit = "off" } == [.ok, .warning])
        #expect(
            levels { ($0.synchronousCommit, $0.standbys, $0.synchronousStandbys) = ("local", 1, 1) } == [.ok, .warning]
        )
    }

    @Test func clocksPoolersAndStandbysAreNamed() {
        #expect(levels { $0.clockOffset = .seconds(60) } == [.ok, .warning])
        #expect(levels { $0.clockOffset = .seconds(-60) } == [.ok, .warning])
        #expect(levels { $0.listens = false } == [.ok, .warning])
        #expect(levels { $0.isReadOnly = true } == [.ok, .error])
    }
}

@Suite("What doctor says of the gateways of a database", .timeLimit(.minutes(1)))
struct FleetRuleTests {
    @Test func missingRightsAreAWarningThatNamesThem() {
        let finding = FleetRule.rights(["INSERT", "DELETE"], "db")
        #expect(finding.level == .warning)
        #expect(finding.text.contains("lacks INSERT, DELETE on authgateway.gateway"))
        #expect(finding.remedy?.contains("grant SELECT, INSERT, UPDATE and DELETE on authgateway.gateway") == true)
    }

    // MARK: Fleet

    private func member(
        _ id: String,
        _ acknowledged: Int64 = 0,
        seen: Duration = .milliseconds(300),
        version: String = "1",
        digest: String = "aaaaaa",
        offset: Duration = .zero
    ) -> FleetMember {
        let heartbeat = FleetHeartbeat(
            id: id,
            host: "host-\(id)",
            version: version,
            startedAt: "2026-11-25T08:00:00.000Z",
            configurationDigest: digest,
            clockOffset: offset,
            acknowledged: FleetMark(acknowledged)
        )
        return FleetMember(heartbeat, seen: seen)
    }

    @Test func aClockThatIsOffIsAFinding() {
        func levels(_ members: [FleetMember]) -> [DoctorFinding.Level] {
            FleetRule.findings(of: members, "db").map(\.level)
        }
        #expect(levels([]) == [])
        #expect(levels([member("a"), member("b")]) == [.ok])
        #expect(
            levels([member("a", offset: .seconds(6)), member("b", offset: .seconds(-6))]) == [.ok, .warning, .warning]
        )
        #expect(levels([member("a"), member("b", version: "2")]) == [.ok, .warning])
        #expect(levels([member("a"), member("b", seen: .seconds(60), version: "2")]) == [.ok])
    }
}
