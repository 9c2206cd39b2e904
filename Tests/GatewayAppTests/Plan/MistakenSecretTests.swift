import GatewayConfiguration
import GatewayStrategies
import Testing

@testable import GatewayApp

/// A secret that stands where none is expected is not shown, whatever the slip was.
@Suite("Secrets in mistakes", .timeLimit(.minutes(5)))
struct MistakenSecretTests {
    private func outcome(_ files: [String: String]) -> ConfigOutcome {
        let secrets = MemorySecrets(variables: ["TOKEN": "t"])
        return ConfigLoader(files: MemoryFiles(files), environment: { secrets.environment($0) })
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
    }

    private func report(_ text: String, including included: String = "") -> String {
        outcome(["/work/gateway.yaml": text, "/work/more.yaml": included]).report(consequence: "refused")
    }

    private static let route = "upstream: https://a.example.com"

    @Test(arguments: [
        "version: 1\nroutes: {a: {\(route), auth: \"Bearer SECRET\"}}\n",
        "version: 1\nroutes: {a: {\(route), auth: bearer:SECRET}}\n",
        "version: 1\nroutes: {a: {\(route), auth: {credential: \"Bearer SECRET\"}}}\n",
        "version: 1\nroutes: {a: {\(route), auth: {strategy: \"bearer SECRET\"}}}\n",
        "version: 1\nroutes: {a: {\(route), auth: {bearer SECRET}}}\n",
        "version: 1\nroutes: {a: {\(route), auth: {strategy: bearer, token:SECRET}}}\n",
        "version: 1\nroutes: {a: {\(route), auth: {strategy: bearer, tokn=SECRET}}}\n",
        "version: 1\nroutes: {a: {\(route), auth: {strategy: bearer, token: {SECRET}}}}\n",
        "version: 1\nroutes: {a: {\(route), auth: {strategy: bearer, token: {exec: \"vault SECRET\"}}}}\n",
        "version: 1\nroutes:\n  a:\n    \(route)\n    auth:\n      strategy: bearer\n      token:SECRET\n",
        "version: 1\nroutes:\n  a:\n    \(route)\n    auth:\n      token=SECRET\n\nlimits: {}\n",
        "version: 1\nroutes: {a: {upstream: \"http://127.0.0.1:1/?api_key=SECRET\", auth: none}}\n",
        "version: 1\nroutes: {a: {upstream: \"http://127.0.0.1:1/?SECRET\", auth: none}}\n",
        "version: 1\nroutes: {a: {upstream: \"http://127.0.0.1:1/#x=SECRET\", auth: none}}\n",
        "version: 1\nroutes: {a: {\(route), auth: {strategy: bearer, token: {SECRET==}}}}\n",
        "version: 1\nroutes: {a: {\(route), auth: {strategy: bearer, SECRET==}}}\n",
        "version: 1\naccess: {clients: {SECRET==}}\n",
        "version: 1\nroutes: {a: {\(route), auth: {strategy: basic, username: \"me:SECRET\", password: {env: A}}}}\n",
        "version: 1\nroutes: {a: {\(route), auth: [bearer, SECRET]}}\n",
        "version: 1\nroutes: {a: SECRET}\n",
        "version: 1\nroutes: {a:SECRET}\n",
        "version: 1\naccess: {clients: {laptop: SECRET}}\n",
        "version: 1\naccess: {clients: {laptop:SECRET}}\n",
        "version: 1\naccess: {clients: {laptop SECRET}}\n",
        "version: 1\naccess: {clients: [SECRET]}\n",
        "version: 1\nbox: SECRET\n",
        "SECRET",
        "- SECRET\n",
        "A=SECRET\nB=SECRET\n",
        "A=SECRET\n# a comment\nB=SECRET\n",
        "A=SECRET\nB=x: SECRET\n",
        "SECRET: [\n",
        "version: 1\nroutes: {}\nSECRET\n",
    ])
    func itIsNotShown(_ text: String) {
        let (main, included) = (report(text), report("version: 1\ninclude: more.yaml\n", including: text))
        #expect(main.contains("error: ") && !main.contains("SECRET"), "\(main)")
        #expect(included.contains("error: ") && !included.contains("SECRET"), "\(included)")
    }

    @Test func aKeyWithItsValueInItIsToldOfTheSpace() {
        let text = report("version: 1\nroutes: {a: {\(Self.route), auth: {strategy: bearer, token:SECRET}}}\n")
        #expect(text.contains("unknown key \"token:…\"; a space is missing after \"token:\"\n"))
        #expect(text.contains("{strategy: bearer, token:***}}}\n"))
        #expect(text.contains("1 problem; "))
    }

    @Test func aLineWithoutASpaceIsPointedAtItself() {
        let text = report("version: 1\nroutes:\n  a:\n    \(Self.route)\n    auth=SECRET\n\nlimits: {}\n")
        #expect(
            text.hasPrefix("gateway.yaml:5:5: error: write \"auth: \" in place of \"auth=\"\n    5 |     auth=***\n")
        )
        #expect(text.hasSuffix("~\n1 problem; refused.\n"))
    }

    @Test func aNameThatCannotBeOneIsNotQuoted() {
        let text = report("version: 1\nroutes: {a: {\(Self.route), auth: bearer:SECRET}}\n")
        #expect(text.contains("expected the name of a credential, or a mapping such as {strategy: bearer, token: {env"))
        #expect(text.contains("auth: ***}}\n"))
    }

    @Test func anUnknownNameIsQuoted() {
        let text = report("version: 1\nroutes: {a: {\(Self.route), auth: nobody}}\n")
        #expect(text.contains("no credential is named \"nobody\"\n"))
    }

    @Test(arguments: ["$TOKEN", "\"$TOKEN\"", "$_t0ken"])
    func aVariableWithoutBracesIsWarnedOf(_ value: String) {
        let text = "version: 1\nroutes: {a: {\(Self.route), auth: {strategy: bearer, token: \(value)}}}\n"
        let outcome = outcome(["/work/gateway.yaml": text])
        #expect(outcome.plan != nil)
        let advice = "\"$NAME\" is not replaced; write ${NAME} or {env: NAME}, or $$ for a dollar sign"
        #expect(outcome.diagnostics.map(\.message) == [advice])
        // It may be a password all the same.
        #expect(!outcome.report(consequence: "refused").contains(value))
    }

    @Test(arguments: ["$$TOKEN", "$5", "a$TOKEN", "$TOKEN.x", "$"])
    func otherDollarSignsAreNot(_ value: String) {
        let text = "version: 1\nroutes: {a: {\(Self.route), auth: {strategy: bearer, token: \(value)}}}\n"
        let outcome = outcome(["/work/gateway.yaml": text])
        #expect(outcome.plan != nil)
        #expect(!outcome.report(consequence: "refused").contains("is not replaced"))
    }

    @Test func aWarningOfAVariableHidesNoError() {
        let outcome = outcome(["/work/gateway.yaml": "version: 1\nroutes: {a: {upstream: $TOKEN, auth: none}}\n"])
        #expect(outcome.plan == nil)
        #expect(outcome.diagnostics.map(\.severity) == [.warning, .error])
    }
}
