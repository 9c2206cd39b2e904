import GatewayConfiguration
import GatewayHTTP
import GatewayTools
import Testing

@Suite("Importing from YAML and JSON", .timeLimit(.minutes(5)))
struct ImportedDocumentTests {
    private static func root(_ text: String) throws -> ConfigNode {
        try #require(YAMLLoader().load(Array(text.utf8)).root)
    }

    private static func lines(_ findings: ImportFindings) -> [String] {
        ImportedEntries.make(findings.services, taken: [], folder: "./state/imported")
            .flatMap { ["\($0.name):"] + $0.credential + $0.route }
    }

    @Test func aServerAndASchemeOfOpenAPIAreTakenOver() throws {
        let text = """
            {"openapi": "3.1.0", "info": {"title": "Pet Store"},
             "servers": [{"url": "https://{region}.example.com/v3/", "variables": {"region": {"default": "eu"}}}],
             "security": [{"key": []}],
             "components": {"securitySchemes": {
               "login": {"type": "openIdConnect"},
               "basic": {"type": "http", "scheme": "basic"},
               "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"}}}}
            """
        let findings = try OpenAPIDocument.services(try Self.root(text))
        #expect(
            Self.lines(findings) == [
                "pet-store:", "strategy: header", "name: X-Api-Key", "value: {env: PET_STORE_TOKEN}",
                "upstream: https://eu.example.com/v3", "auth: pet-store",
            ]
        )
        #expect(findings.notes.count == 2)
    }

    @Test func swaggerTwoIsRead() throws {
        let text = """
            swagger: "2.0"
            info: {title: Reports}
            host: reports.example.com
            basePath: /v1
            schemes: [http, https]
            securityDefinitions:
              service: {type: oauth2, flow: application, tokenUrl: https://id.example.com/token, scopes: {read: Reads}}
            """
        #expect(
            Self.lines(try OpenAPIDocument.services(try Self.root(text))) == [
                "reports:", "strategy: oauth2_client_credentials", "token_url: https://id.example.com/token",
                "client_id: ${REPORTS_CLIENT_ID}", "client_secret: {env: REPORTS_CLIENT_SECRET}", "scopes: [read]",
                "upstream: https://reports.example.com/v1", "auth: reports",
            ]
        )
    }

    @Test func withoutAServerOneHasToBeNamed() throws {
        let root = try Self.root(
            "openapi: 3.0.0\nservers: [{url: /v3}]\ncomponents: {securitySchemes: {a: {type: http, scheme: bearer}}}"
        )
        #expect(throws: UnusableInput.self) { try OpenAPIDocument.services(root) }
        let findings = try OpenAPIDocument.services(root, upstream: "https://a.example.com")
        #expect(findings.services.map(\.upstream) == ["https://a.example.com"])
        #expect(throws: UnusableInput.self) { try OpenAPIDocument.services(try Self.root("a: b")) }
    }

    private static let envoy = """
        static_resources:
          listeners:
            - name: one
              filter_chains:
                - filters:
                    - typed_config:
                        http_filters:
                          - name: injector
                            typed_config:
                              "@type": type.googleapis.com/envoy.extensions.filters.http.credential_injector.v3.CredentialInjector
                              credential:
                                name: generic
                                typed_config:
                                  "@type": type.googleapis.com/envoy.extensions.http.injected_credentials.generic.v3.Generic
                                  credential: {name: token}
                        route_config:
                          virtual_hosts:
                            - routes: [{match: {prefix: /}, route: {cluster: api}}]
          clusters:
            - name: api
              transport_socket: {name: tls}
              load_assignment:
                endpoints:
                  - lb_endpoints:
                      - endpoint: {address: {socket_address: {address: api.example.com, port_value: 443}}}
          secrets:
            - name: token
              generic_secret: {secret: SOURCE}
        """

    @Test(arguments: [
        ("{inline_string: Bearer hunter2}", ["strategy: bearer", "token: {file: ./state/imported/example}"]),
        ("{environment_variable: TOKEN}", ["strategy: header", "value: {env: TOKEN}"]),
        ("{filename: /etc/token}", ["strategy: header", "value: {file: /etc/token}"]),
    ])
    func anInjectorOfEnvoyIsTakenOver(_ source: String, _ expected: [String]) throws {
        let root = try Self.root(Self.envoy.replacing("SOURCE", with: source))
        let lines = Self.lines(try EnvoyConfiguration.services(root))
        #expect(lines == ["example:"] + expected + ["upstream: https://api.example.com", "auth: example"])
    }

    @Test func anEnvoyConfigurationWithoutOneSaysSo() throws {
        #expect(try EnvoyConfiguration.services(try Self.root("static_resources: {}")).notes.count == 1)
        #expect(throws: UnusableInput.self) { try EnvoyConfiguration.services(try Self.root("a: b")) }
    }
}
