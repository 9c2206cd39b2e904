import GatewayConfiguration
import GatewayHTTP
import Testing

@testable import GatewayTools

@Suite("Repeating a registration", .timeLimit(.minutes(1)))
struct ClientRegistrationTests {
    private static let whole = """
        client_id: c1
        registration_url: https://auth.example/register
        redirect_uri: http://127.0.0.1:61234/callback
        """

    private func registration(_ lines: String, of name: String = "calc") throws -> ClientRegistration? {
        let indented = lines.split(separator: "\n").map { "    \($0)\n" }.joined()
        let root = try #require(YAMLLoader().load(Array("credentials:\n  calc:\n\(indented)".utf8)).root)
        return ClientRegistration(of: name, in: root, path: "gateway.yaml", secretsIn: "./state/secrets")
    }

    @Test(arguments: [
        "", "\nscopes: [a, b]", "\nclient_secret: {file: ./state/secrets/calc.CLIENT_SECRET}\nclient_auth: basic",
        "\nclient_auth: none",
    ])
    func whatAddHasWrittenCanBeRepeated(_ more: String) throws {
        #expect(try registration(Self.whole + more) != nil)
    }

    @Test func onlyWhatAddHasWrittenIs() throws {
        for key in ["client_id", "registration_url", "redirect_uri"] {
            let rest = Self.whole.split(separator: "\n").filter { !$0.hasPrefix(key) }.joined(separator: "\n")
            #expect(try registration(rest) == nil, "without \(key)")
        }
        #expect(try registration(Self.whole, of: "other") == nil)
        // Nothing overwrites a secret that is kept elsewhere.
        for source in ["{env: SECRET}", "{file: /etc/secret}", "{file: ./state/secrets/../x}", "plain"] {
            #expect(try registration("\(Self.whole)\nclient_secret: \(source)") == nil, "\(source)")
        }
        #expect(try registration(Self.whole.replacing("https://auth", with: "http://auth")) == nil)
        #expect(try registration(Self.whole.replacing("https://auth", with: "https://me:x@auth")) == nil)
    }
}
