import GatewayApp
import GatewayConfiguration
import GatewayEvents
import GatewayHTTP
import GatewayStrategies
import Testing

@Suite("audit.anchor", .timeLimit(.minutes(5)))
struct AnchorTests {
    private func outcome(_ anchor: String) -> ConfigOutcome {
        let text = """
            version: 1
            audit:
              anchor: \(anchor)
            routes: {box: {upstream: https://api.box.com, auth: none}}
            """
        let files = MemoryFiles(["/work/gateway.yaml": text])
        let secrets = MemorySecrets(variables: [:], files: [:])
        return ConfigLoader(files: files, environment: { secrets.environment($0) })
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
    }

    private static let anchors: [(String, AnchorPlan)] = [
        ("{syslog: true}", .syslog(tag: "authgateway")),
        ("{syslog: box-gateway}", .syslog(tag: "box-gateway")),
        ("{syslog: \"true\"}", .syslog(tag: "true")),
        ("{file: ./heads}", .file(path: "/work/heads")),
        ("{command: [keep]}", .command(TokenProgram(command: ["keep"], timeout: .seconds(5)), read: nil)),
        (
            "{command: [./keep, now], read: [cat, x], timeout: 10s}",
            .command(
                TokenProgram(command: ["/work/keep", "now"], timeout: .seconds(10)),
                read: TokenProgram(command: ["cat", "x"], timeout: .seconds(10))
            )
        ),
    ]

    @Test(arguments: anchors)
    func eachKindIsRead(_ text: String, _ expected: AnchorPlan) throws {
        let outcome = outcome(text)
        #expect(outcome.report(consequence: "refused") == "")
        #expect(try #require(outcome.plan).audit.anchor == expected)
    }

    @Test(arguments: [
        ("{}", "an anchor has exactly one of command, syslog, file"),
        ("{syslog: true, file: x}", "an anchor has exactly one of command, syslog, file"),
        ("{syslog: false}", "expected true, or a tag"),
        ("{syslog: a b}", "expected true, or a tag"),
        ("{syslog: true, read: [x]}", "is for an anchor with a \"command\""),
        ("{file: x, timeout: 1s}", "is for an anchor with a \"command\""),
        ("{command: []}", "must name a program"),
        ("{command: [x], timeout: 1m}", "must be between 100ms and 15s"),
        ("{file: ./state/audit.sqlite}", "is a file of the audit log itself"),
        ("{file: ./state/audit.sqlite.head}", "is a file of the audit log itself"),
        ("{fil: x}", "unknown key \"fil\"; did you mean \"file\"?"),
        ("heads", "expected a mapping"),
    ])
    func aMistakeIsExplained(_ text: String, _ words: String) {
        let outcome = outcome(text)
        #expect(outcome.plan == nil)
        #expect(outcome.report(consequence: "refused").contains(words), "\(outcome.report(consequence: "refused"))")
    }
}
