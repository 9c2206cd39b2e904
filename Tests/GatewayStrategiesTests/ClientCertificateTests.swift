import GatewayConfiguration
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Clients with a certificate", .timeLimit(.minutes(5)))
struct ClientCertificateTests {
    private static func block(_ more: [(String, FixtureNode)]) -> FixtureNode {
        .mapping([("token_url", "https://id.example.com/token"), ("client_id", "app")] + more)
    }

    private static let signed: [(String, FixtureNode)] = [
        ("client_auth", "private_key_jwt"), ("private_key", "\(SampleKeys.rsa)"), ("algorithm", "PS256"),
        ("certificate", "app.pem"),
    ]

    private static func tls(_ more: [(String, FixtureNode)] = []) -> [(String, FixtureNode)] {
        let own: FixtureNode = ["certificate": "app.pem", "private_key": "\(SampleKeys.rsa)", "ca": "corp.pem"]
        return [("client_auth", "tls"), ("tls", own)] + more
    }

    private static let files = ["app.pem": certificate, "corp.pem": "authority"]

    /// The thumbprint was made with OpenSSL.
    @Test func anAssertionNamesTheCertificateByItsDigest() throws {
        let grant = try grant("oauth2_client_credentials", Self.block(Self.signed), Self.files)
        let request = try request(of: grant.firstStep(holding: nil, at: now))
        let assertion = try SignedToken(request.parameter("client_assertion"))
        #expect(
            assertion.header
                == .object([
                    "alg": .string("PS256"), "typ": .string("JWT"),
                    "x5t#S256": .string("7ehNo0ux63_IFJLoC2jyv2uNR4z6rlWszntqoP1GVyo"),
                ])
        )
        let seconds = Double(now.wall.milliseconds / 1000)
        #expect(
            assertion.claims
                == .object([
                    "iss": .string("app"), "sub": .string("app"), "aud": .string("https://id.example.com/token"),
                    "jti": .string("\(String.sampleNonce)-0"), "iat": .number(.init(seconds)),
                    "nbf": .number(.init(seconds)),
                    "exp": .number(.init(seconds + 60)),
                ])
        )
        #expect(try assertion.isGenuine())
    }

    @Test func aClientShowsACertificateAndSaysWhoItIs() throws {
        let strategy = try decode("oauth2_client_credentials", Self.block(Self.tls()), Self.files)
        guard case .token(let grant) = strategy.behavior else { throw WrongKind() }
        let request = try request(of: grant.firstStep(holding: nil, at: now))
        #expect(
            request.wire == """
                POST https://id.example.com/token

                grant_type=client_credentials&client_id=app
                """
        )
        #expect(request.tls?.certificates == Self.certificate)
        #expect(request.tls?.authorities == "authority")
        #expect(strategy.clientTLS == request.tls)
        #expect(!grant.sendsSecrets)
    }

    private static let kinds: [(String, [(String, FixtureNode)])] = [
        ("oauth2_password", [("username", "ada"), ("password", "pw")]),
        ("oauth2_authorization_code", [("authorize_url", "https://id.example.com/login"), ("refresh_token", "R")]),
        ("oauth2_jwt_bearer", [("key", "\(SampleKeys.rsa)"), ("claims", ["iss": "a"])]),
    ]

    @Test(arguments: kinds)
    func everyGrantOfAClientCanShowIt(_ kind: String, _ more: [(String, FixtureNode)]) throws {
        let fields = ConfigFields.fixture(Self.block(Self.tls(more)), secrets: FixtureSecrets(Self.files))
        let type = try #require(StrategyCatalog.builtIn.strategy(named: kind))
        let made = type.init(from: fields)
        let strategy = try #require(made)
        guard case .token(let grant) = strategy.behavior else { throw WrongKind() }
        let request = try request(of: grant.firstStep(holding: nil, at: now))
        #expect(request.tls != nil)
        #expect(try request.parameter("client_id") == "app")
        #expect(strategy.clientTLS == request.tls)
    }

    private static let mistakes: [([(String, FixtureNode)], [String])] = [
        ([("client_auth", "tls")], ["missing key \"tls\""]),
        (
            [("client_auth", "tls"), ("tls", ["certificate": "lost.pem"])],
            ["tls.certificate: lost.pem: no such file", "tls: missing key \"private_key\""]
        ),
        (tls([("client_secret", "s")]), ["client_secret: cannot be combined with client_auth: tls"]),
        ([("client_secret", "s"), ("tls", ["certificate": "app.pem"])], ["tls: is for client_auth: tls"]),
        ([("client_secret", "s"), ("certificate", "app.pem")], ["certificate: is for client_auth: private_key_jwt"]),
    ]

    @Test(arguments: mistakes)
    func mistakesAreExplained(_ more: [(String, FixtureNode)], _ expected: [String]) throws {
        #expect(try problems("oauth2_client_credentials", Self.block(more), Self.files) == expected)
    }

    @Test func aCertificateHasNoEffectInClearText() throws {
        let block: FixtureNode = .mapping(
            [("token_url", "http://127.0.0.1:1/token"), ("client_id", "app")] + Self.tls()
        )
        #expect(
            try problems("oauth2_client_credentials", block, Self.files) == [
                "tls: has no effect: token_url is http"
            ]
        )
    }

    @Test func everyInputMakesAnotherToken() throws {
        let plain = Self.signed.filter { $0.0 != "certificate" }
        let grants = try [Self.signed, plain, Self.tls()].map {
            try grant("oauth2_client_credentials", Self.block($0), Self.files)
        }
        let renewed = try grant(
            "oauth2_client_credentials",
            Self.block(Self.tls()),
            ["app.pem": "another", "corp.pem": "authority"]
        )
        try TokenGrantConformance.checkIdentitiesDiffer(grants + [renewed])
        let success = TokenReply(200, #"{"access_token":"new","token_type":"bearer","expires_in":3600}"#)
        try TokenGrantConformance(grants[2], success: success).check()
    }

    /// Of the RSA key of the samples; it ends in a hundred years.
    private static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIIC/zCCAeegAwIBAgIUZVp2JQsmXVXDgIVO7bPFag8jL64wDQYJKoZIhvcNAQEL
        BQAwDjEMMAoGA1UEAwwDYXBwMCAXDTI2MTEyNjA2MDcxOVoYDzIxMjYxMTAyMDYw
        NzE5WjAOMQwwCgYDVQQDDANhcHAwggEiMA0GCSqGSIb3DQEBAQUAA4IBDwAwggEK
        AoIBAQC3bjgJmKnnRuyFW2oMK6aUGbzhnLV6CqXq0JuCYx6Bwn3fgp+MhVd3/9NF
        IaUwDDyT4acUwX1Zer3220ztDlg92jRZLzMEnEEWTrrOqouPm6iMFGbzxhChinx7
        UhjF5KyjvaFTJrGp8OvUhITF3JVsgboAGD4bjqaAG6/y3Px1fXjhJuT25zk5e1OV
        CsB83QWkczFBJGj3tdAwmYzQPKAlSqkOZG3Oet3wDd+2MFS7eqa8IrFdFw3RpWFK
        zS8mzgmXT4Tvf+d4UMPkMX2RJ5e3hyl+i/HiLYbdKaW+H/8DjkThYIDt+7awigzf
        EAVAinjAvAOUNeM51ZASKgqCnRVRAgMBAAGjUzBRMB0GA1UdDgQWBBQ46K2njkWF
        4+tADK+of8kuJY5sujAfBgNVHSMEGDAWgBQ46K2njkWF4+tADK+of8kuJY5sujAP
        BgNVHRMBAf8EBTADAQH/MA0GCSqGSIb3DQEBCwUAA4IBAQACEDXmeKqDQmVKoFkQ
        i6AyoTIRuP8TbYZTQEVXEa1iE8Vz31gBL747NNerrWASmtS/XRHXoX9FJT/KJscX
        kNTP7xSKl0kgCi94FuKA1mGXwgds3/SLtuNKqT8W5o0uCvvkDYnhkKq56Bi7zqO5
        Rm/AfCzEtUqFoNNGMktOKNK1Iz4fOIdm6zRWjV5QEL905JbPUKRnS8XBYis8VUgY
        10yt0WDphtaev1rBm/S4GsQ5g1fsueuwuqTgonBmVqkjgUbcxYOGVQbYWKUHzMhL
        NZSbJ7AnEMlhFc6fg8n2zOEB41bocHHQgzmSB31m7ZgvB1UGwi28tiww6J6Pirw4
        Snul
        -----END CERTIFICATE-----
        """
}
