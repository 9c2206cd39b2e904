import Testing

@testable import GatewayHTTP
@testable import GatewayLocalAuthority

@Suite("Environment of clients", .timeLimit(.minutes(1)))
struct ClientEnvironmentTests {
    private let endpoint = ProxyEndpoint(
        host: "127.0.0.1",
        port: 8082,
        isTLS: false,
        intercepts: true,
        requiresClientToken: false
    )
    private let trust = ClientEnvironment.Trust(
        bundle: "/s/ca/trust/bundle.pem",
        own: "/s/ca/ca.pem",
        javaStore: "/s/j s.p12"
    )

    private func values(
        proof: ClientEnvironment.Proof? = nil,
        trusting: Bool = true,
        hosts: [String] = ["api.example"],
        _ inherited: [String: String] = [:]
    ) -> [String: String] {
        let environment = ClientEnvironment(endpoint, proof: proof, trust: trusting ? trust : nil, hosts: hosts) {
            inherited[$0]
        }
        return Dictionary(uniqueKeysWithValues: environment.variables.map { ($0.name, $0.value) })
    }

    @Test func eachReaderHasItsVariable() {
        let values = values()
        let names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
        for name in names + ["grpc_proxy", "ws_proxy", "wss_proxy"] {
            #expect(values[name] == "http://127.0.0.1:8082")
        }
        #expect(values["NODE_USE_ENV_PROXY"] == "1" && values["PERL_LWP_ENV_PROXY"] == "1")
        #expect(ClientEnvironment.bundleNames.count == 13)
        for name in ClientEnvironment.bundleNames { #expect(values[name] == trust.bundle) }
        for name in ClientEnvironment.additionNames { #expect(values[name] == trust.own) }
        #expect(
            values["JAVA_TOOL_OPTIONS"]
                == "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=8082 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=8082 "
                + "-Dhttp.nonProxyHosts=localhost|127.0.0.1|[::1] \"-Djavax.net.ssl.trustStore=/s/j s.p12\" "
                + "-Djavax.net.ssl.trustStoreType=PKCS12"
        )
    }

    @Test func theTokenIsInTheURLAndNotInWhatJavaPrints() {
        let values = values(proof: .init(client: "lap top", token: Secret("a/b@c")))
        #expect(values["HTTPS_PROXY"] == "http://lap%20top:a%2Fb%40c@127.0.0.1:8082")
        #expect(
            values["JAVA_TOOL_OPTIONS"]?.contains("a/b") == false
                && values["JAVA_TOOL_OPTIONS"]?.contains("%40") == false
        )
    }

    @Test func withoutInterceptedHostsNothingIsTrustedAnew() {
        let values = values(trusting: false)
        #expect(values["SSL_CERT_FILE"] == nil && values["NODE_EXTRA_CA_CERTS"] == nil)
        #expect(values["JAVA_TOOL_OPTIONS"]?.contains("trustStore") == false)
    }

    @Test func whatTheEnvironmentSaidStays() {
        let values = values([
            "NODE_EXTRA_CA_CERTS": "/corp.pem", "JAVA_TOOL_OPTIONS": "-Xmx1g", "no_proxy": "corp.test",
        ])
        #expect(values["NODE_EXTRA_CA_CERTS"] == trust.bundle && values["DENO_CERT"] == trust.own)
        #expect(values["JAVA_TOOL_OPTIONS"]?.hasPrefix("-Xmx1g -Dhttp.proxyHost") == true)
        #expect(values["NO_PROXY"] == "localhost,127.0.0.1,::1,corp.test")
        let earlier = ["SSL_CERT_FILE": "/a", "CURL_CA_BUNDLE": "/a", "NODE_EXTRA_CA_CERTS": "/b", "PIP_CERT": ""]
        #expect(ClientEnvironment.earlierBundles { earlier[$0] } == ["/a", "/b"])
    }

    @Test(
        arguments: [
            ("*", ""), ("example", ""), (".example", ""), ("*.example", ""), ("API.example", ""),
            ("api.example:443", ""),
            ("other", ",other"), ("pi.example", ",pi.example"), ("10.0.0.0/8 x", ",10.0.0.0/8,x"),
        ]
    )
    func aHostOfARouteIsNeverExcepted(earlier: String, kept: String) {
        let exceptions = ProxyExceptions(routed: ["api.example"], earlier: earlier)
        #expect(exceptions.text == "localhost,127.0.0.1,::1" + kept)
        let local = ProxyExceptions(routed: ["localhost", "::1"], earlier: nil)
        #expect(local.hosts == ["127.0.0.1"] && local.javaText.isEmpty)
    }

    @Test func eachFormatQuotesItsOwnWay() throws {
        let variables = [("A", "x y'$z\"\\"), ("B", "plain/1")].map {
            ClientEnvironment.Variable(name: $0.0, value: $0.1)
        }
        #expect(EnvironmentFormat.sh.text(variables) == "export A='x y'\\''$z\"\\'\nexport B=plain/1\n")
        #expect(EnvironmentFormat.dotenv.text(variables) == "A=\"x y'\\$z\\\"\\\\\"\nB='plain/1'\n")
        #expect(EnvironmentFormat.docker.text(variables) == "A=x y'$z\"\\\nB=plain/1\n")
        #expect(EnvironmentFormat.json.text(variables) == "{\n  \"A\": \"x y'$z\\\"\\\\\",\n  \"B\": \"plain/1\"\n}\n")
        let lines = [ClientEnvironment.Variable(name: "A", value: "x\ny")]
        #expect(EnvironmentFormat.docker.text(lines) == nil)
        #expect(
            EnvironmentFormat.dotenv.text(lines) == "A=\"x\\ny\"\n"
                && EnvironmentFormat.sh.text(lines) == "export A='x\ny'\n"
        )
    }
}
