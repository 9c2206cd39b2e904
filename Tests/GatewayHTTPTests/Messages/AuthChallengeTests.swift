import GatewayHTTP
import GatewayTesting
import Testing

@Suite("Challenges of WWW-Authenticate", .timeLimit(.minutes(5)))
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

    private static let codes: [(String, String?)] = [
        ("", nil), ("Bearer", nil), ("Bearer realm=\"error=x\"", nil), ("Negotiate YII+/abc==", nil),
        ("Bearer error=\"invalid_token\"", "invalid_token"), ("Bearer ERROR = Invalid_Token", "invalid_token"),
        ("Bearer realm=\"a\\\"b\", error=\"insufficient_scope\"", "insufficient_scope"),
        // The first of a field counts, of whichever challenge.
        ("Basic realm=x, DPoP error=a, Bearer error=b, error=c", "a"),
        // Not well formed.
        ("error=\"invalid_token\"", "invalid_token"), ("realm=\"error=x\" error=y", "y"),
        ("Bearer realm=\"x\" ; error=y", "y"), ("Bearer realm=\"x\";error=y", nil),
        ("Bearer realm=\"x\", ?\"error=x\" error=y", "y"), ("Bearer x=, error=y", "y"),
        ("Bearer error=\"open", "open"), ("Bearer realm=\"open, error=y", nil),
        ("Bearer error=\" y z\"", "y"), ("Bearer error=\"\"", ""), ("Bearer x=y, error=", ""),
    ]

    @Test(arguments: codes)
    func anErrorIsReadAlsoFromWhatIsNotWellFormed(_ value: String, _ expected: String?) {
        #expect(AuthChallenge.errorCode(in: Array(value.utf8)) == expected)
    }

    /// All that can follow, up to five bytes, with one byte of each kind that the reader tells apart.
    private static let noise: [[UInt8]] = {
        let kinds = Array("b =,\"\\/;".utf8) + [0x80]
        var (all, longest): ([[UInt8]], [[UInt8]]) = ([[]], [[]])
        for _ in 1...5 {
            longest = longest.flatMap { start in kinds.map { start + [$0] } }
            all += longest
        }
        return all
    }()

    @Test func noBytesStopItAndOnlyTokensAreNames() {
        #expect(Self.noise.count == 66_430)
        for noise in Self.noise {
            let challenges = AuthChallenge.list(noise)
            let names = challenges.flatMap { [$0.scheme] + $0.parameters.keys }
            guard !names.allSatisfy({ !$0.isEmpty && $0.allSatisfy { $0 == "b" } }) else { continue }
            Issue.record("\(noise) is read as \(challenges)")
        }
    }

    @Test func whatFollowsChangesNoErrorThatWasRead() {
        for noise in Self.noise {
            let code = AuthChallenge.errorCode(in: Array("Bearer error=\"r\", ".utf8) + noise)
            guard code != "r" else { continue }
            Issue.record("\(noise) makes it \(String(describing: code))")
        }
    }

    @Test func whatFollowsChangesNothingThatWasRead() {
        for noise in Self.noise {
            let first = AuthChallenge.list(Array("Digest b=\"r\", ".utf8) + noise).first
            guard first?.scheme != "digest" || first?.parameters["b"] != "r" else { continue }
            Issue.record("\(noise) makes it \(String(describing: first))")
        }
    }

    @Test func aQuotedStringEndsWithItsOwnQuoteOrIsNone() {
        for noise in Self.noise {
            var (value, isEscaped, isWhole): ([UInt8], Bool, Bool) = ([], false, false)
            for byte in noise where !isWhole {
                if !isEscaped, byte == UInt8(ascii: "\\") || byte == UInt8(ascii: "\"") {
                    isWhole = byte == UInt8(ascii: "\"")
                    isEscaped = !isWhole
                } else {
                    value.append(byte)
                    isEscaped = false
                }
            }
            let expected = isWhole ? String(decoding: value, as: UTF8.self) : nil
            let challenges = AuthChallenge.list(Array("Digest x=\"".utf8) + noise)
            guard challenges.first?.scheme != "digest" || challenges.first?.parameters["x"] != expected else {
                continue
            }
            Issue.record("\(noise) is read as \(challenges)")
        }
    }

    // MARK: Missing scopes

    private static let lacks = #"Bearer error="insufficient_scope""#
    private static let missing: [([String], [String]?)] = [
        (["\(lacks), scope=\"files:write files:read\""], ["files:write", "files:read"]),
        (["bearer Error=insufficient_scope, Scope=a"], ["a"]), (["\(lacks), scope=\" a  a \""], ["a"]),
        (["Basic realm=\"x\", \(lacks), scope=\"a\""], ["a"]), (["Basic realm=\"x\"", "\(lacks), scope=\"a\""], ["a"]),
        // The metadata that it names is of no account here.
        (["\(lacks), scope=\"a\", resource_metadata=\"http://169.254.169.254/\""], ["a"]),
        ([lacks], nil), (["\(lacks), scope=\"\""], nil), ([], nil),
        (["Bearer error=\"invalid_token\", scope=\"a\""], nil), (["Bearer scope=\"a\""], nil),
        (["DPoP error=\"insufficient_scope\", scope=\"a\""], nil),
        // The scope of another challenge is not the one that is missing.
        (["Bearer scope=\"a\", \(lacks)"], nil), (["\(lacks), scope=\"a\\\"b\""], nil),
        (["\(lacks), scope=\"caf\u{E9}\""], nil),
        (["\(lacks), scope=\"\(String(repeating: "a", count: 256))\""], [String(repeating: "a", count: 256)]),
        (["\(lacks), scope=\"\(String(repeating: "a", count: 257))\""], nil),
        (["\(lacks), scope=\"\((1...65).map(String.init).joined(separator: " "))\""], nil),
    ]

    @Test(arguments: missing)
    func theScopesThatATokenLacksAreRead(_ values: [String], _ expected: [String]?) {
        let found = HeadText.response(403, values.map { "WWW-Authenticate: \($0)" }) { head, bytes in
            AuthChallenge.missingScopes(in: head, bytes)
        }
        #expect((found ?? nil) == expected)
    }
}
