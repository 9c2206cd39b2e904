import GatewayApp
import GatewayConfiguration
import Testing

@testable import GatewayHTTP
@testable import GatewayTools

@Suite("Importing from text files", .timeLimit(.minutes(5)))
struct ImportTests {
    private static func lines(_ findings: ImportFindings, _ index: Int = 0) -> [String] {
        let entries = ImportedEntries.make(findings.services, taken: [], folder: "./state/imported")
        guard entries.indices.contains(index) else { return [] }
        return ["\(entries[index].name):"] + entries[index].credential + entries[index].route
    }

    // MARK: .netrc

    @Test func machinesOfNetrcAreTakenOver() throws {
        let text = """
            # A comment
            machine api.example.com login me password hunter2
            machine git.example.org
              login "a \\"b\\""
              password "with space"
            macdef init
            machine not.a.machine

            machine nothing.example.com
            default login anonymous password x
            """
        let findings = try NetrcFile.services(text)
        #expect(findings.services.map(\.upstream) == ["https://api.example.com", "https://git.example.org"])
        #expect(
            Self.lines(findings) == [
                "example:", "strategy: basic", "username: me", "password: {file: ./state/imported/example}",
                "upstream: https://api.example.com", "auth: example",
            ]
        )
        #expect(
            findings.services[1].login == .basic(username: .text("a \"b\""), password: .clear(Secret("with space")))
        )
        #expect(Self.lines(findings, 1)[0] == "git:" || Self.lines(findings, 1)[0] == "example-2:")
        #expect(findings.notes.count == 2)
    }

    @Test func whatIsNoNetrcIsRefused() {
        #expect(throws: UnusableInput.self) { try NetrcFile.services("TOKEN=hunter2") }
        #expect(throws: UnusableInput.self) { try NetrcFile.services("machine") }
        let many =
            String(repeating: "machine ", count: 1)
            + (0..<300).map { "m\($0).example login a password b machine " }.joined()
        #expect(throws: UnusableInput.self) { try NetrcFile.services(many + "z") }
    }

    // MARK: docker

    @Test func registriesOfDockerAreTakenOver() throws {
        let text = """
            {"auths": {"ghcr.io": {"auth": "bWU6aHVudGVyMg=="}, "https://index.docker.io/v1/": {"auth": "bWU6eA=="},
             "quay.io": {}, "broken.io": {"auth": "!"}}, "credHelpers": {"gcr.io": "gcloud"}}
            """
        let findings = try DockerCredentials.services(Array(text.utf8))
        #expect(findings.services.map(\.upstream) == ["https://ghcr.io", "https://index.docker.io"])
        #expect(findings.services.map(\.name) == ["ghcr", "docker-hub"])
        #expect(findings.notes.contains { $0.contains("docker-credential-gcloud") })
        #expect(findings.notes.contains { $0.contains("broken.io cannot be read") })
        #expect(!findings.notes.joined().contains("hunter2"))
        #expect(throws: UnusableInput.self) { try DockerCredentials.services(Array("[]".utf8)) }
    }

    @Test(arguments: [
        ("https://index.docker.io/v1/", ["preset: docker-hub"], "preset: docker-hub", []),
        ("ghcr.io", ["preset: ghcr"], "preset: ghcr", []),
        ("r.example.com", ["strategy: basic"], "upstream: https://r.example.com", ["Use strategy: registry"]),
        ("a.example.com/ghcr.io", ["strategy: basic"], "upstream: https://a.example.com", ["Use strategy"]),
        ("ghcr.io:8443", ["strategy: basic"], "upstream: https://ghcr.io:8443", ["Use strategy"]),
    ])
    func aRegistryWithATokenServerGetsItsPreset(
        _ registry: String,
        _ first: [String],
        _ place: String,
        _ notes: [String]
    ) throws {
        let text = #"{"auths": {"\#(registry)": {"auth": "bWU6aHVudGVyMg=="}}}"#
        let findings = try DockerCredentials.services(Array(text.utf8))
        let entry = try #require(
            ImportedEntries.make(findings.services, taken: [], folder: "./state/secrets").first
        )
        let secret = "password: {file: ./state/secrets/\(entry.name)}"
        #expect(entry.credential == first + ["username: me", secret])
        #expect(entry.route == [place, "auth: \(entry.name)"])
        #expect(findings.notes.count == notes.count)
        for (said, wanted) in zip(findings.notes, notes) { #expect(said.contains(wanted)) }
    }

    @Test func aStoreOfDockerIsNamed() throws {
        let findings = try DockerCredentials.services(Array(#"{"auths": {"a.io": {}}, "credsStore": "desktop"}"#.utf8))
        #expect(findings.services.isEmpty && findings.notes.joined().contains("docker-credential-desktop"))
    }

    // MARK: curl

    @Test(arguments: [
        (
            "curl -H 'Authorization: Bearer abc' https://api.example.com/v1/x",
            ["strategy: bearer", "token: {file: ./state/imported/example}"]
        ),
        (
            "curl -H 'Authorization: Bearer $TOKEN' https://api.example.com/",
            ["strategy: bearer", "token: {env: TOKEN}"]
        ),
        (
            "curl -H 'Authorization: Token abc' https://api.example.com/",
            ["strategy: header", "scheme: Token", "value: {file: ./state/imported/example}"]
        ),
        (
            "curl -u me:pw https://api.example.com/",
            ["strategy: basic", "username: me", "password: {file: ./state/imported/example}"]
        ),
        (
            "curl -H 'X-Api-Key: ${KEY}' https://api.example.com/",
            ["strategy: header", "name: X-Api-Key", "value: {env: KEY}"]
        ),
        (
            "curl 'https://api.example.com/?a=b&api_key=abc'",
            ["strategy: header", "query: api_key", "value: {file: ./state/imported/example}"]
        ),
    ])
    func aLoginOfCurlIsTakenOver(_ command: String, _ expected: [String]) throws {
        let lines = Self.lines(try CurlLogin.services(command))
        #expect(lines == ["example:"] + expected + ["upstream: https://api.example.com", "auth: example"])
    }

    @Test func aCurlCommandWithoutLoginIsRefused() {
        #expect(throws: UnusableInput.self) { try CurlLogin.services("curl https://api.example.com/") }
        #expect(throws: UnusableInput.self) { try CurlLogin.services("wget https://api.example.com/") }
    }

    @Test(arguments: [
        ("curl -u bob https://api.example.com/", "curl would ask for the password."),
        ("curl -H 'X-Api-Key: $(cat key)' https://api.example.com/", "A program prints the secret"),
        ("curl -H 'Authorization: Bearer `cat key`' https://api.example.com/", "A program prints the secret"),
    ])
    func aSecretThatIsNotInTheCommandIsRefused(_ command: String, _ words: String) {
        let error = #expect(throws: UnusableInput.self) { try CurlLogin.services(command) }
        #expect(error?.message.hasPrefix(words) == true)
    }

    // MARK: nginx

    @Test func fieldsOfNginxAreTakenOver() throws {
        let text = """
            http {
              upstream api { server api.internal:8443; server other:1; }
              server {
                proxy_set_header X-Api-Key "k;1";
                location /a/ { proxy_pass https://a.example.com/v1/; } # Inherits.
                location /b { proxy_pass https://api; proxy_set_header Authorization 'Bearer hunter2'; }
                location /c { proxy_pass https://c.example.com; proxy_set_header Authorization $http_authorization; }
                location ~ ^/d{2} { proxy_pass http://$host; }
              }
            }
            """
        let findings = try NginxConfiguration.services(text)
        #expect(findings.services.map(\.upstream) == ["https://a.example.com/v1", "https://api.internal:8443"])
        #expect(findings.services[0].login == .header(name: "X-Api-Key", scheme: nil, .clear(Secret("k;1"))))
        #expect(findings.services[1].login == .bearer(.clear(Secret("hunter2"))))
        #expect(findings.notes.contains { $0.contains("made of variables") })
        #expect(findings.notes.contains { $0.contains("not a fixed URL") })
    }

    @Test(arguments: ["a {", "}", "a \"b", String(repeating: "a {", count: 20)])
    func whatIsNoNginxConfigurationIsRefused(_ text: String) {
        #expect(throws: UnusableInput.self) { try NginxConfiguration.services(text) }
    }

    // MARK: Names and secrets

    @Test(arguments: [
        ("https://api.github.com", "github"), ("https://www.example.co.uk", "example"),
        ("http://127.0.0.1:8", "127-0-0-1"),
        ("http://localhost:1", "localhost"), ("https://registry-1.docker.io", "docker"),
        ("https://a.b.example.org", "example"),
    ])
    func aNameIsMadeFromTheHost(_ url: String, _ name: String) {
        #expect(ImportedName.made(fromURL: url) == name)
    }

    @Test func noSecretStandsInTheLines() {
        let login = ImportedLogin.basic(username: .text("a$b"), password: .clear(Secret("hunter2")))
        let service = ImportedService(upstream: "https://a.example.com", login: login)
        let entries = ImportedEntries.make([service, service], taken: ["example"], folder: "./state/imported")
        #expect(entries.map(\.name) == ["example-2", "example-3"])
        let lines: [String] = entries.flatMap { $0.credential + $0.route }
        #expect(!lines.joined().contains("hunter2"))
        #expect(entries[0].credential.contains("username: \"a$$b\""))
        #expect(entries[0].secretFile == .init(name: "example-2", secret: Secret("hunter2")))
    }

    // MARK: Bounds

    @Test func theNestingOfBlocksIsLimited() {
        func nested(_ depth: Int) -> String {
            String(repeating: "a {", count: depth) + String(repeating: "}", count: depth)
        }
        #expect(throws: Never.self) { try NginxConfiguration.services(nested(NginxConfiguration.maximumDepth - 1)) }
        #expect(throws: UnusableInput.self) { try NginxConfiguration.services(nested(NginxConfiguration.maximumDepth)) }
    }

    @Test func theNumberOfServicesInAFileIsLimited() throws {
        func text(_ count: Int) -> String {
            let places = (1...count).map { "location /\($0) { proxy_pass https://h\($0).example.com; }" }
            return "server { proxy_set_header X-Api-Key key; \(places.joined()) }"
        }
        let most = ImportFindings.maximumServices
        #expect(try NginxConfiguration.services(text(most)).services.count == most)
        #expect(throws: UnusableInput.self) { try NginxConfiguration.services(text(most + 1)) }
    }

    // MARK: Docker

    /// Their credentials are written with a user name and a password.
    @Test func theRegistriesOfDockerHavePresets() throws {
        for name in Set(DockerCredentials.presets.values) {
            let preset = try #require(PresetLibrary.builtIn[name])
            #expect(preset.strategy == "registry")
            guard case .mapping(let entries) = preset.credential.content else {
                Issue.record("\(name) is no mapping")
                continue
            }
            for key in ["username", "password"] { #expect(entries.contains { $0.key == key }) }
        }
    }
}
