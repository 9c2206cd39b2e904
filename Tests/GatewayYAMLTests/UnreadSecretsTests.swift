import GatewayCore
import GatewayStrategies
import GatewayYAML
import Testing

/// `check --no-secrets`: nothing is said about values that were not read, and everything about the rest.
@Suite("Unread secrets", .timeLimit(.minutes(5)))
struct UnreadSecretsTests {
    private func report(_ text: String) -> String {
        ConfigLoader(files: MemoryFiles(["/work/gateway.yaml": text]), placeholder: "unset") { name in
            name == "REGION" ? "eu" : nil
        }
        .plan(at: "gateway.yaml", catalog: .builtIn, secrets: UnreadSecrets())
        .report(consequence: "refused")
    }

    private static let whole = """
        version: 1
        listeners:
          proxy: [{address: "0.0.0.0:8443"}, {unix: proxy.sock, allow_users: [no-such-user]}]
          admin: {address: "${ADMIN}"}
        access:
          clients:
            ci: {token_sha256: "${CI_HASH}"}
            a: {token: {env: A}}
            b: {token: {env: B}}
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
}
