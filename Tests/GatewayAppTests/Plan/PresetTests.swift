import GatewayConfiguration
import GatewayHTTP
import GatewayStrategies
import GatewayTokens
import Testing

@testable import GatewayApp
@testable import GatewayProxy

@Suite("preset", .timeLimit(.minutes(5)))
struct PresetTests {
    private static let library = """
        okta:
          title: Okta
          docs: https://developer.okta.com/
          read: 2026-11-26
          parameters:
            domain: {what: The domain of the organization, example: acme.okta.com}
            path: {what: The path of the authorization server, example: default, default: main}
          credential:
            strategy: oauth2_client_credentials
            token_url: https://${domain}/oauth2/${path}/v1/token
            client_id: client
            client_secret: {env: OKTA_SECRET}
          routes:
            api: {upstream: "https://${domain}"}
            admin: {upstream: "https://admin.${domain}", protocol: auto}
        vault:
          title: Vault
          docs: https://developer.hashicorp.com/
          read: unverified
          parameters: {user: {what: The user, example: ada}}
          credential: {strategy: basic, username: "${user}", password: {env: OKTA_SECRET}}
          routes: {api: {upstream: https://vault.example.com}}
        """

    private static let head = """
        version: 1
        credentials:
          okta:
            preset: okta
            with: {domain: acme.okta.com}
        """

    private func outcome(_ text: String, files: [String: String] = [:], placeholder: String? = nil) -> ConfigOutcome {
        let loaded = PresetLoader.load(Array(Self.library.utf8), named: "presets")
        #expect(loaded.diagnostics == [])
        let secrets = MemorySecrets(variables: ["OKTA_SECRET": "s3cret", "TENANT": "acme.okta.com"], files: [:])
        let files = MemoryFiles(["/work/gateway.yaml": text].merging(files) { _, new in new })
        let loader = ConfigLoader(files: files, placeholder: placeholder) { secrets.environment($0) }
        let presets = PresetLibrary(loaded.presets)
        return loader.plan(at: "gateway.yaml", catalog: .builtIn, presets: presets, secrets: secrets)
    }

    private func report(_ text: String) -> String { outcome(text).report(consequence: "refused") }

    // MARK: What it stands for

    @Test func itStandsForItsKeys() throws {
        let preset = outcome(Self.head + "\nroutes: {okta: {preset: okta, with: {domain: acme.okta.com}, auth: okta}}")
        let written = outcome(
            """
            version: 1
            credentials:
              okta:
                strategy: oauth2_client_credentials
                token_url: https://acme.okta.com/oauth2/main/v1/token
                client_id: client
                client_secret: {env: OKTA_SECRET}
            routes: {okta: {upstream: https://acme.okta.com, auth: okta}}
            """
        )
        #expect(preset.report(consequence: "") == "")
        let (one, other) = (try #require(preset.plan), try #require(written.plan))
        #expect(PlanSummary(one).text() == PlanSummary(other).text())
        #expect(one.credentials[0].strategyKind == "oauth2_client_credentials")
    }

    @Test func aRouteAloneIsEnough() throws {
        let text = "version: 1\nroutes: {okta: {preset: okta, with: {domain: \"${TENANT}\"}}}"
        let plan = try #require(outcome(text).plan)
        #expect(plan.routes[0].upstream.host == "acme.okta.com")
        #expect(plan.credentials.map(\.name) == ["routes.okta"])
    }

    @Test func anotherRouteOfItIsNamedBehindASlash() throws {
        let text = Self.head + "\nroutes: {a: {preset: okta/admin, with: {domain: acme.okta.com}, auth: okta}}"
        let plan = try #require(outcome(text).plan)
        #expect(plan.routes[0].upstream.host == "admin.acme.okta.com")
        #expect(plan.routes[0].upstreamProtocol == .auto)
    }

    @Test func aRouteNeedsTheParametersThatItUses() {
        let credential = "version: 1\ncredentials: {mine: {preset: vault, with: {user: ada}}}\n"
        #expect(report(credential + "routes: {vault: {preset: vault, auth: mine}}") == "")
        for route in ["{preset: vault}", "{preset: vault, auth: {mode: challenge}}"] {
            let text = report("version: 1\nroutes: {vault: \(route)}")
            #expect(text.contains("the preset vault needs \"user\": The user"), "\(text)")
            #expect(text.contains("1 problem; refused."), "\(text)")
        }
    }

    @Test func ownKeysStay() throws {
        let text = """
            version: 1
            routes:
              okta:
                preset: okta
                with: {domain: acme.okta.com}
                upstream: http://127.0.0.1:9
                auth: {client_secret: other}
            """
        let outcome = outcome(text)
        let plan = try #require(outcome.plan)
        #expect(plan.routes[0].upstream.host == "127.0.0.1")
        // The secret in the file, and nothing else, is warned of.
        #expect(outcome.diagnostics.map(\.path.description) == ["routes.okta.auth.client_secret"])
    }

    private static func loaded(tools: String) -> (presets: [Preset], diagnostics: [ConfigDiagnostic]) {
        let text = """
            acme:
              title: Acme
              docs: https://acme.example/
              read: unverified
              parameters: {tenant: {what: The tenant, example: a}, host: {what: A host, example: b, default: x.example}}
              tools: \(tools)
              credential: {strategy: basic, username: "${host}", password: {env: ACME_KEY}}
              routes: {api: {upstream: "https://${tenant}.acme.example/v1"}}
            """
        return PresetLoader.load(Array(text.utf8), named: "presets")
    }

    @Test func theVariablesOfToolsAreRead() throws {
        let keys = "ACME_KEY: {prefix: ac-, git_host: acme.example}, OLD_KEY: {when_set: true}"
        let tools = "{\(keys), ACME_URL: {base_path: /v1, needed: true}, ACME_BASE: {base_path: /}}"
        let loaded = Self.loaded(tools: tools)
        #expect(loaded.diagnostics == [])
        let preset = try #require(loaded.presets.first)
        let expected = [
            Preset.ToolVariable(name: "ACME_KEY", prefix: "ac-", gitHost: "acme.example"),
            Preset.ToolVariable(name: "OLD_KEY", occasion: .whenSet),
            Preset.ToolVariable(name: "ACME_URL", basePath: "/v1"),
            Preset.ToolVariable(name: "ACME_BASE", basePath: "/", occasion: .withoutProxy),
        ]
        #expect(Set(preset.tools) == Set(expected))
        #expect(preset.leads(to: "https://a.acme.example") && !preset.leads(to: "https://acme.example"))
    }

    @Test(arguments: [
        ("{A: {prefix: \"a b\"}}", "visible ASCII"), ("{A: {base_path: v1}}", "expected a path"),
        ("{A: {prefx: a}}", "unknown key \"prefx\""), ("{A: x}", "expected a mapping"),
        ("{A: {prefix: a-prefix-of-more-than-thirty-two-bytes}}", "at most 32"),
        ("{A: {base_path: /, when_set: true}}", "cannot be combined"), ("{A: {needed: true}}", "needs base_path"),
        ("{A: {git_host: https://a.example}}", "expected a host"),
    ])
    func mistakesInVariablesOfToolsAreNamed(_ tools: String, _ words: String) {
        let messages = Self.loaded(tools: tools).diagnostics.map(\.message)
        #expect(messages.contains { $0.contains(words) }, "\(messages)")
    }

    // MARK: Mistakes

    @Test(arguments: [
        ("{preset: oktaa}", "no preset is named \"oktaa\"; did you mean \"okta\"?"),
        ("{preset: something}", "no preset is named \"something\"; `authgateway presets` lists them"),
        ("{preset: [okta]}", "expected the name of a preset, found a sequence"),
        ("{preset: okta}", "the preset okta needs \"domain\": The domain of the organization"),
        ("{preset: okta, with: {domain: x.com, pth: x}}", "no parameter \"pth\"; did you mean \"path\"?"),
        ("{preset: okta, with: {domain: \"a b\"}}", "must contain only visible ASCII characters, without spaces"),
        ("{preset: okta, with: {domain: \"https://x.com\"}}", "credentials.okta.with.domain: must be only a host"),
        ("{preset: okta, with: {domain: x.com/a}}", "credentials.okta.with.domain: must be only a host"),
        ("{preset: okta, with: {domain: [x]}}", "expected a string, found a sequence"),
        ("{preset: okta, with: x}", "expected a mapping of parameters"),
        (
            "{preset: okta, with: {domain: x.com}, strategy: bearer}",
            "the preset already sets it; remove this, or \"preset\""
        ),
        ("{preset: okta, with: {domain: x.com}, clientid: x}", "unknown key \"clientid\"; did you mean \"client_id\"?"),
        ("{preset: okta/admin, with: {domain: x.com}}", "a credential takes the preset itself: \"okta\""),
    ])
    func aMistakeIsSaidOnceAndWhereItStands(_ credential: String, _ words: String) {
        let text = report(
            "version: 1\ncredentials:\n  okta: \(credential)\nroutes: {a: {upstream: https://a.example, auth: okta}}"
        )
        #expect(text.contains(words), "\(text)")
        #expect(text.contains("gateway.yaml:3:"), "\(text)")
        #expect(text.contains("1 problem; refused."), "\(text)")
    }

    @Test(arguments: [
        ("{preset: okta/x, with: {domain: x.com}}", "the preset has no such route; it has \"okta/admin\""),
        ("{preset: x}", "no preset is named \"x\""),
    ])
    func soIsOneOfARoute(_ route: String, _ words: String) {
        let text = report("version: 1\nroutes:\n  okta: \(route)")
        #expect(text.contains(words), "\(text)")
        #expect(text.contains("1 problem; refused."), "\(text)")
    }

    @Test func aVariableThatIsNotSetIsReportedAtThePreset() {
        let text = report(
            "version: 1\nroutes:\n  okta:\n    preset: okta\n    with: {domain: x.com}\n    auth: {client_secret: {env: NONE}}"
        )
        #expect(text.contains("gateway.yaml:6:33: error: routes.okta.auth.client_secret.env"), "\(text)")
    }

    @Test func withoutTheVariablesItIsCheckedAllTheSame() {
        let text = "version: 1\nroutes: {okta: {preset: okta, with: {domain: \"${UNSET}\"}}}"
        #expect(outcome(text, placeholder: "unset").isValid)
    }

    // MARK: A folder of one's own

    @Test func aFolderReplacesPresets() throws {
        let own = """
            okta:
              title: Our own
              docs: https://wiki.acme.example/okta
              read: unverified
              credential: {strategy: bearer, token: {env: OKTA_SECRET}}
              routes: {api: {upstream: https://okta.acme.example}}
            """
        let text = "version: 1\npresets: ./presets\nroutes: {okta: {preset: okta}}"
        let plan = try #require(outcome(text, files: ["/work/presets/own.yaml": own]).plan)
        #expect(plan.routes[0].upstream.host == "okta.acme.example")
        let wrong = outcome(text, files: ["/work/presets/own.yaml": own.replacing("title", with: "titel")])
        let report = wrong.report(consequence: "refused")
        #expect(report.contains("own.yaml:2: okta: unknown key \"titel\"; did you mean \"title\"?"), "\(report)")
    }

    /// A preset can name a program to run.
    @Test(arguments: [
        ("/work/presets", FilePlace.Kind.folder, UInt32(0o777)), ("/work/presets", .folder, 0o1777),
        ("/work/presets/own.yaml", .file, 0o666),
    ])
    func whatEverybodyMayWriteToHasNoPreset(_ path: String, _ kind: FilePlace.Kind, _ mode: UInt32) {
        var files = MemoryFiles([
            "/work/gateway.yaml": "version: 1\npresets: ./presets\n",
            "/work/presets/own.yaml": """
            own:
              title: Own
              docs: https://wiki.acme.example/own
              read: unverified
              credential: {strategy: exec, command: [id]}
              routes: {api: {upstream: https://own.acme.example}}
            """,
        ])
        func own() -> (library: PresetLibrary, diagnostics: [ConfigDiagnostic]) {
            let loader = ConfigLoader(files: files) { _ in nil }
            return loader.ownPresets(of: loader.load("gateway.yaml"))
        }
        #expect(own().library.presets.map(\.name) == ["own"])
        #expect(own().diagnostics == [])
        files.places = [path: [FilePlace(path: path, kind: kind, mode: mode, isOnReadOnlyMount: false)]]
        #expect(own().library.presets == [])
        #expect(own().diagnostics.map(\.severity) == [.error])
        #expect(own().diagnostics.map(\.path.description) == ["presets"])
        #expect(own().diagnostics.map(\.command) == ["chmod o-w \(path)"])
    }

    @Test func aFolderOfAGroupIsWarnedOfOnce() {
        let folder = FilePlace(path: "/work", kind: .folder, mode: 0o775, isOnReadOnlyMount: false)
        var files = MemoryFiles(["/work/gateway.yaml": "version: 1\npresets: ./presets\n"])
        files.files["/work/presets/own.yaml"] = Array(Self.library.utf8)
        for path in files.files.keys { files.places[path] = [folder] }
        for (isStrict, severity) in [(false, ConfigDiagnostic.Severity.warning), (true, .error)] {
            let loader = ConfigLoader(files: files, strictModes: isStrict) { _ in nil }
            let outcome = loader.plan(
                at: "gateway.yaml",
                catalog: .builtIn,
                presets: PresetLibrary(),
                secrets: MemorySecrets()
            )
            let modes = outcome.diagnostics.filter { $0.command != nil }
            #expect(modes.map(\.severity) == [severity])
        }
    }

    @Test(arguments: [
        ("credential: {token: x}", "missing key \"strategy\""),
        ("read: yesterday", "expected a date such as 2026-11-26, or unverified"),
        ("parameters: {unused: {what: x, example: y}}", "nothing uses the parameter \"unused\""),
    ])
    func aMistakeInAPresetIsExplained(_ line: String, _ words: String) {
        let key = line.prefix { $0 != ":" }
        let rest = [
            "title: T", "docs: https://x.example", "read: unverified", "credential: {strategy: none}",
            "routes: {a: {upstream: https://a.example}}",
        ]
        let lines = rest.filter { !$0.hasPrefix(key) } + [line]
        let loaded = PresetLoader.load(Array(("x:\n" + lines.map { "  \($0)\n" }.joined()).utf8), named: "x.yaml")
        #expect(loaded.presets == [])
        #expect(loaded.diagnostics.contains { $0.message.contains(words) }, "\(loaded.diagnostics)")
    }

    // MARK: What is written for it

    /// A dollar sign of a person is one in the configuration as well, which replaces `${NAME}`. In a URL,
    /// where no brace may stand, it is such a variable.
    @Test func whatIsWrittenIsReadAsItWasSaid() throws {
        let said = "a${HOME}b$$c"
        let preset = try #require(
            PresetLoader.load(Array(Self.library.utf8), named: "x").presets.first { $0.name == "okta" }
        )
        let entries = PresetEntries(
            preset,
            as: "okta",
            parameters: ["domain": said],
            upstream: "https://x.example/${HOME}/a$$c"
        )
        let url = try FirstConfiguration.Service(url: "https://x.example/$5").entries(as: "other", token: "{env: T}")
        let lines = entries.text + url.routes.flatMap(\.lines).map { "\($0)\n" }.joined()
        let loader = ConfigLoader(files: MemoryFiles(["/work/gateway.yaml": lines])) { _ in "EXPANDED" }
        let loading = loader.load("gateway.yaml")
        #expect(loading.diagnostics == [])
        let texts = try #require(loading.document).root.texts
        #expect(texts.filter { $0 == said }.count == 2)
        #expect(texts.contains("https://x.example/EXPANDED/a$$c") && texts.contains("https://x.example/$5"), "\(texts)")
    }

    @Test func entriesAreAsAPersonWritesThem() throws {
        let preset = try #require(PresetLoader.load(Array(Self.library.utf8), named: "x").presets.first)
        let entries = PresetEntries(
            preset,
            as: "campus",
            parameters: ["domain": "acme.okta.com"],
            sources: ["OKTA_SECRET": "{file: okta.secret}"]
        )
        #expect(
            entries.text == """
                credentials:
                  campus:
                    preset: okta
                    with: {domain: acme.okta.com}
                    client_secret: {file: okta.secret}
                routes:
                  campus:
                    preset: okta
                    with: {domain: acme.okta.com}
                    auth: campus
                  campus-admin:
                    preset: okta/admin
                    with: {domain: acme.okta.com}
                    auth: campus

                """
        )
    }
}

extension ConfigNode {
    /// Of all scalars.
    fileprivate var texts: [String] {
        switch content {
        case .scalar(let scalar): [scalar.text]
        case .sequence(let nodes): nodes.flatMap(\.texts)
        case .mapping(let entries): entries.flatMap(\.value.texts)
        }
    }
}
