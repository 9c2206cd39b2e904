import GatewayApp
import GatewayConfiguration
import GatewayHTTP
import GatewayLocalAuthority
import Testing

@testable import GatewayTools

@Suite("What tools get in place of their API keys", .timeLimit(.minutes(5)))
struct ToolVariablesTests {
    private static let token = String(repeating: "0f", count: 32)

    private static let endpoint = ProxyEndpoint(
        host: "127.0.0.1",
        port: 8082,
        isTLS: false,
        intercepts: true,
        requiresClientToken: true
    )

    private static func tools(
        _ services: [ProxyOffer.Service],
        own: [String: String] = [:],
        keeping kept: Set<String> = [],
        usesPaths: Bool = false,
        isKnown: Bool = true
    ) -> ToolVariables {
        ToolVariables(
            PresetLibrary.builtIn.presets,
            ProxyOffer(endpoints: [endpoint], services: services),
            at: endpoint,
            token: isKnown ? ToolVariables.Token(known: Secret(token)) : ToolVariables.Token(),
            keeping: kept,
            usesPaths: usesPaths
        ) { own[$0] }
    }

    private static let openai = ProxyOffer.Service(origin: "https://api.openai.com", path: "/ai")
    private static let anthropic = ProxyOffer.Service(origin: "https://api.anthropic.com", path: "/anthropic")

    private static func values(_ tools: ToolVariables) -> [String: String] {
        tools.variables.reduce(into: [:]) { $0[$1.name] = $1.value }
    }

    @Test func keysOfServicesThatHaveARouteAreReplaced() {
        let tools = Self.tools([Self.openai, Self.anthropic], own: ["OPENAI_API_KEY": "real"])
        #expect(
            Self.values(tools) == [
                "OPENAI_API_KEY": "sk-\(Self.token)", "ANTHROPIC_API_KEY": "sk-ant-\(Self.token)",
                "AUTHGATEWAY_RUN_TOKEN": Self.token,
            ]
        )
        #expect(tools.replaced == ["OPENAI_API_KEY"] && tools.warnings == [] && tools.urls == [])
        #expect(Self.values(Self.tools([])) == [:])
        #expect(Self.values(Self.tools([.init(origin: "https://api.example.com")])) == [:])
    }

    @Test func aNameThatIsNotTheUsualOneIsReplacedWhereItIsSet() {
        let tools = Self.tools([Self.anthropic], own: ["ANTHROPIC_AUTH_TOKEN": "real", "ANTHROPIC_API_KEY": ""])
        #expect(
            Self.values(tools).keys.sorted() == ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "AUTHGATEWAY_RUN_TOKEN"]
        )
        #expect(tools.replaced == ["ANTHROPIC_AUTH_TOKEN"])
    }

    /// A real key that was set inside the run around it is still named.
    @Test func aNestedRunReplacesTheTokensOfTheOneAroundIt() {
        let outer = [
            "AUTHGATEWAY_RUN_TOKEN": "outer", "OPENAI_API_KEY": "sk-outer", "ANTHROPIC_API_KEY": "sk-ant-outer",
        ]
        let tools = Self.tools([Self.openai, Self.anthropic], own: outer)
        #expect(tools.replaced == [] && tools.notices == [])
        #expect(Self.values(tools)["AUTHGATEWAY_RUN_TOKEN"] == Self.token)
        #expect(Self.values(tools)["OPENAI_API_KEY"] == "sk-\(Self.token)")
        let real = outer.merging(["OPENAI_API_KEY": "real"]) { $1 }
        #expect(Self.tools([Self.openai, Self.anthropic], own: real).replaced == ["OPENAI_API_KEY"])
    }

    @Test func thePersonIsToldWhatIsReplacedAndWhereProgramsAreSent() {
        let tools = Self.tools([Self.openai], own: ["OPENAI_API_KEY": "real"], usesPaths: true)
        #expect(
            tools.notices == [
                "OPENAI_BASE_URL points the program to the gateway",
                "the program gets a token for this run in place of OPENAI_API_KEY (--keep-env NAME passes one on)",
            ]
        )
        #expect(Self.tools([Self.openai]).notices == [])
    }

    @Test func whatIsKeptStaysAsItIs() {
        let tools = Self.tools(
            [Self.openai],
            own: ["OPENAI_API_KEY": "real"],
            keeping: ["OPENAI_API_KEY", "OPENAI_BASE_URL"],
            usesPaths: true
        )
        #expect(tools.variables == [] && tools.replaced == [])
    }

    @Test func aProgramWithoutTheProxyIsToldWhereTheGatewayIs() {
        let tools = Self.tools([Self.openai, Self.anthropic], usesPaths: true)
        let values = Self.values(tools)
        #expect(values["OPENAI_BASE_URL"] == "http://127.0.0.1:8082/ai/v1")
        #expect(values["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:8082/anthropic")
        #expect(tools.urls == ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"])
        // Without a proof the gateway would refuse it.
        #expect(Self.tools([Self.openai], usesPaths: true, isKnown: false).urls == [])
        #expect(Self.tools([.init(origin: "https://api.openai.com")], usesPaths: true).urls == [])
        let root = Self.tools([.init(origin: "https://api.openai.com", path: "/")], usesPaths: true)
        #expect(Self.values(root)["OPENAI_BASE_URL"] == "http://127.0.0.1:8082/v1")
    }

    /// Its SDK has a transport of its own, which ignores the proxy.
    @Test func aToolThatIgnoresTheProxyIsToldInAnyCase() {
        let replicate = ProxyOffer.Service(origin: "https://api.replicate.com", path: "/replicate")
        #expect(Self.values(Self.tools([replicate]))["REPLICATE_BASE_URL"] == "http://127.0.0.1:8082/replicate")
        let unproven = Self.tools([replicate], isKnown: false)
        #expect(unproven.urls == [] && unproven.warnings.count == 1)
        #expect(unproven.warnings[0].hasPrefix("programs that read REPLICATE_BASE_URL ignore the proxy"))
        #expect(Self.tools([replicate], own: ["REPLICATE_BASE_URL": "https://api.replicate.com"]).warnings == [])
    }

    @Test(
        arguments: [
            ("https://api.openai.com/v1", true), ("https://API.openai.com:443", true),
            ("http://127.0.0.1:8082/ai/v1", true), ("http://localhost:8082/ai/v1", true), ("", true),
            ("http://127.0.0.1:9999/v1", false), ("https://llm.example/v1", false), ("llm.example", false),
            ("https://api.openai.com@llm.example/", false), ("https://api.openai.com.llm.example/", false),
        ]
    )
    func aKeyForAnotherServerStays(_ url: String, _ isReplaced: Bool) {
        let tools = Self.tools([Self.openai], own: ["OPENAI_API_KEY": "real", "OPENAI_BASE_URL": url])
        #expect(tools.replaced == (isReplaced ? ["OPENAI_API_KEY"] : []))
        #expect(tools.warnings.contains { $0.hasPrefix("OPENAI_BASE_URL names a server") } != isReplaced)
        #expect(!tools.warnings.contains { $0.contains("real") || $0.contains("llm") })
    }

    @Test(
        arguments: [
            ("https://gitlab.com", "GITLAB_TOKEN"), ("https://acme.openai.azure.com", "AZURE_OPENAI_API_KEY"),
            ("https://api.github.com", "GITHUB_TOKEN"),
        ]
    )
    func aHostWithAParameterIsFound(_ origin: String, _ name: String) {
        #expect(Self.values(Self.tools([.init(origin: origin)]))[name] == Self.token)
    }

    @Test(arguments: ["https://openai.azure.com", "https://.openai.azure.com", "http://acme.openai.azure.com"])
    func anotherHostIsNot(_ origin: String) {
        #expect(Self.values(Self.tools([.init(origin: origin)])) == [:])
    }

    private static let github = ProxyOffer.Service(origin: "https://api.github.com")

    /// `gh` offers GH_TOKEN to github.com when git asks it.
    @Test func aCredentialHelperDoesNotSeeTheTokenOfTheRun() throws {
        let values = Self.values(Self.tools([Self.github]))
        #expect(values["GIT_CONFIG_COUNT"] == "2" && values["GIT_CONFIG_VALUE_0"] == "")
        #expect(Set(["0", "1"].map { values["GIT_CONFIG_KEY_\($0)"] }) == ["credential.https://github.com.helper"])
        let helper = try #require(values["GIT_CONFIG_VALUE_1"])
        #expect(helper.contains("unset GH_TOKEN GITHUB_TOKEN; GIT_CONFIG_COUNT=0;") && !helper.contains(Self.token))
    }

    @Test(
        arguments: [
            ([github], [], ["github.com"]), ([github, .init(origin: "https://github.com")], [], []), ([openai], [], []),
            ([github], ["GH_TOKEN", "GITHUB_TOKEN"], []), ([github], ["GIT_CONFIG_COUNT"], ["github.com"]),
        ] as [([ProxyOffer.Service], Set<String>, [String])]
    )
    func hostsWhereTheTokenIsWorthNothingAreNamed(
        _ services: [ProxyOffer.Service],
        _ kept: Set<String>,
        _ hosts: [String]
    ) {
        #expect(Self.tools(services, keeping: kept).gitHosts == hosts)
    }

    @Test func settingsOfGitThatTheEnvironmentHasStay() throws {
        let values = Self.values(Self.tools([Self.github], own: ["GIT_CONFIG_COUNT": "3"]))
        #expect(values["GIT_CONFIG_COUNT"] == "5" && values["GIT_CONFIG_KEY_2"] == nil)
        #expect(values["GIT_CONFIG_VALUE_3"] == "")
        #expect(try #require(values["GIT_CONFIG_VALUE_4"]).contains("GIT_CONFIG_COUNT=3;"))
    }

    @Test(
        arguments: [
            ([github, .init(origin: "https://github.com")], [:], []), ([openai], [:], []),
            ([github], [:], ["GH_TOKEN", "GITHUB_TOKEN"]), ([github], ["GIT_CONFIG_COUNT": "many"], []),
            ([github], [:], ["GIT_CONFIG_COUNT"]),
        ] as [([ProxyOffer.Service], [String: String], Set<String>)]
    )
    func gitStaysAsItIs(_ services: [ProxyOffer.Service], _ own: [String: String], _ kept: Set<String>) {
        let values = Self.values(Self.tools(services, own: own, keeping: kept))
        #expect(!values.isEmpty && !values.keys.contains { $0.hasPrefix("GIT_") })
    }

    @Test func aValueThatNobodyKnowsIsAnotherOneEachTime() {
        let (one, other) = (Self.tools([Self.openai], isKnown: false), Self.tools([Self.openai], isKnown: false))
        let (key, second) = (Self.values(one)["OPENAI_API_KEY"], Self.values(other)["OPENAI_API_KEY"])
        #expect(key?.count == 67 && key != second)
    }
}
