import GatewayConfiguration
import GatewayHTTP
import GatewayStrategies
import Testing

@testable import GatewayApp

/// `check --no-secrets`: nothing is said about values that were not read, and everything about the rest.
@Suite("Unread secrets", .timeLimit(.minutes(5)))
struct UnreadSecretsTests {
    private func report(_ text: String) -> String {
        ConfigLoader(files: MemoryFiles(["/work/gateway.yaml": text]), placeholder: "unset") { name in
            name == "REGION" ? "eu" : nil
        }
        .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: UnreadSecrets())
        .report(consequence: "refused")
    }

    private static let whole = """
        version: 1
        listeners:
          proxy:
            - {address: "0.0.0.0:8443", tls: {certificate: tls.pem, private_key: {file: tls.key}}}
            - {unix: proxy.sock, allow_users: [no-such-user]}
          admin: {address: "${ADMIN}"}
        access:
          clients:
            ci: {token_sha256: "${CI_HASH}"}
            a: {token: {env: A}}
            b: {token: {env: B}}
            c: {token: "${C_TOKEN}"}
            d: {token: {exec: [p], environment: {WHO: d}}}
            e: {token: {exec: [p], environment: {WHO: e}}}
        credentials:
          box: {strategy: box_jwt, app_settings: box.json}
          signed:
            strategy: oauth2_client_credentials
            token_url: ${AUTHORITY}/token
            client_id: abc
            client_auth: private_key_jwt
            private_key: {file: key.pem}
            algorithm: RS256
          derived:
            strategy: oauth2_token_exchange
            parent: signed
            token_url: https://login.example/token
            client_id: abc
            client_secret: {exec: [./no-such-program]}
        routes:
          a: {upstream: "https://api.box.com", auth: box, clients: [ci]}
          b: {upstream: "${UPSTREAM}", auth: signed}
          c: {upstream: "https://c.example", auth: {strategy: bearer, token: "${C}"}}
        """

    @Test func valuesThatWereNotReadAreNotJudged() {
        #expect(report(Self.whole) == "")
    }

    @Test func aTokenInPlainTextIsStillTooShort() {
        let short = Self.whole.replacing("{env: A}", with: "abc")
        #expect(report(short).contains("the token has fewer than 16 bytes"))
    }

    @Test func aTokenThatWasNotReadLeavesTheRestChecked() {
        let text = """
            version: 1
            listeners: {proxy: [{address: "0.0.0.0:8443", tls: {certificate: a.pem, private_key: {file: a.key}}}]}
            access: {clients: {ci: {token: {env: CI}}}}
            credentials: {spare: {strategy: bearer, token: {env: SPARE}}}
            routes: {a: {upstream: "https://a.example", auth: none, clients: [ci]}}
            """
        #expect(report(text).contains("no route uses this credential"))
        #expect(!report(text).contains("error"))
    }

    @Test(arguments: [(false, 0, 1), (true, 1, 0)])
    func modesOfFilesAreInTheReport(_ strictModes: Bool, _ errors: Int, _ warnings: Int) {
        var files = MemoryFiles(["/work/gateway.yaml": Self.whole])
        let place = FilePlace(path: "/work/gateway.yaml", kind: .file, mode: 0o664, isOnReadOnlyMount: false)
        files.places["/work/gateway.yaml"] = [place]
        let report = ConfigLoader(files: files, placeholder: "unset", strictModes: strictModes) { _ in nil }
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: UnreadSecrets()).report
        #expect((report.errors, report.warnings) == (errors, warnings))
        #expect(report.isValid == !strictModes)
        #expect(report.diagnostics.map(\.file) == ["gateway.yaml"])
        #expect(report.diagnostics.allSatisfy { $0.message.hasSuffix("run: chmod g-w /work/gateway.yaml") })
    }

    @Test func whatIsWrittenWrongIsStillFound() {
        let wrong = Self.whole.replacing("auth: signed", with: "auth: singed").replacing("{env: A}", with: "{envv: A}")
        let report = report(wrong)
        #expect(report.contains("no credential is named \"singed\"; did you mean \"signed\"?"))
        #expect(report.contains("unknown key \"envv\"; did you mean \"env\"?"))
    }

    @Test func aSecretReferenceWithTwoSourcesIsRefused() {
        let text = "version: 1\nroutes:\n  a:\n    upstream: https://a.example\n    auth:\n      strategy: bearer\n"
        let block = "      token:\n        env: A\n        file: b\n"
        #expect(report(text + block).contains("exactly one of env, file, exec, systemd_credential"))
        let typo = "      token:\n        env: A\n        ttk: 5m\n"
        #expect(report(text + typo).contains("unknown key \"ttk\"; did you mean \"ttl\"?"))
    }

    @Test func aVariableThatIsSetIsChecked() {
        let text = "version: 1\nroutes: {a: {upstream: \"${REGION}\", auth: none}}\n"
        #expect(report(text).contains("routes.a.upstream: expected a URL"))
    }

    @Test func aHostThatNobodyKnowsIsFound() {
        let text = "version: 1\nroutes: {a: {upstream: \"https://${NO_SUCH_HOST_1}\", auth: none}}\n"
        let unset = UnsetVariables()
        _ = ConfigLoader.unread(MemoryFiles(["/work/gateway.yaml": text]), noting: unset).load("gateway.yaml")
        #expect(unset.areIn(host: "unset_no_such_host_1") && unset.areIn(host: "eu.unset_NO_SUCH_HOST_1.example"))
        #expect(!unset.areIn(host: "unset_other") && !unset.areIn(host: "no_such_host_1"))
    }
}
