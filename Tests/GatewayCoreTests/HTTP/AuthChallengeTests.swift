import GatewayCore
import Testing

@Suite("Challenges of WWW-Authenticate")
struct AuthChallengeTests {
    private static let fields: [(String, [AuthChallenge])] = [
        ("", []),
        (" , ,", []),
        ("Basic", [AuthChallenge(scheme: "basic")]),
        ("Basic realm=\"a b\"", [AuthChallenge(scheme: "basic", parameters: ["realm": "a b"])]),
        ("BASIC Realm = simple", [AuthChallenge(scheme: "basic", parameters: ["realm": "simple"])]),
        (
            // RFC 9110 §11.6.1.
            "Basic realm=\"simple\", Newauth realm=\"apps\", type=1, title=\"Login to \\\"apps\\\"\"",
            [
                AuthChallenge(scheme: "basic", parameters: ["realm": "simple"]),
                AuthChallenge(
                    scheme: "newauth",
                    parameters: ["realm": "apps", "type": "1", "title": "Login to \"apps\""]
                ),
            ]
        ),
        (
            "Negotiate YII+/abc==, Basic realm=\"x\"",
            [AuthChallenge(scheme: "negotiate"), AuthChallenge(scheme: "basic", parameters: ["realm": "x"])]
        ),
        (
            "Negotiate, NTLM, Basic realm=\"x, Bearer realm=y\"",
            [
                AuthChallenge(scheme: "negotiate"), AuthChallenge(scheme: "ntlm"),
                AuthChallenge(scheme: "basic", parameters: ["realm": "x, Bearer realm=y"]),
            ]
        ),
        ("Basic realm=\"a\", realm=\"b\"", [AuthChallenge(scheme: "basic", parameters: ["realm": "a"])]),
        ("Basic realm=\"\"", [AuthChallenge(scheme: "basic", parameters: ["realm": ""])]),
        // What cannot be read ends the list.
        ("Basic realm=\"open", [AuthChallenge(scheme: "basic")]),
        ("realm=\"x\"", []),
        // A token68 may look like a parameter without a value.
        (
            "Basic realm=, Bearer x=y",
            [AuthChallenge(scheme: "basic"), AuthChallenge(scheme: "bearer", parameters: ["x": "y"])]
        ),
        ("Bearer realm=\"x\" ; Basic", [AuthChallenge(scheme: "bearer", parameters: ["realm": "x"])]),
    ]

    @Test(arguments: fields)
    func theyAreReadAsTheyStand(_ value: String, _ expected: [AuthChallenge]) {
        #expect(AuthChallenge.list(Array(value.utf8)) == expected)
    }

    @Test func noBytesStopIt() {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<2000 {
            let bytes = (0..<Int.random(in: 0...60, using: &random)).map { _ in
                Array("Basic =,\"\\ \tx/".utf8).randomElement(using: &random) ?? 0
            }
            _ = AuthChallenge.list(bytes)
        }
    }
}
